"""The question: variables and their cells, prices, what leaves allow and gain, what is needed; built around a row."""
