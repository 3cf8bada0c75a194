"""The room that trains large-spread ensembles."""
