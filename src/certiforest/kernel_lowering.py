"""How numba writes kernels down for LLVM: the same code, in half as many instructions.

Most of what numba writes is what LLVM then removes: tuples of arrays taken apart for each call and put together again,
references to arrays that are counted although the caller holds them, thirty instructions for ``x[i]``. To write it, to
read it, and to remove it takes a quarter of the time that compiling takes. A numba that this was never tried with
writes them its own way: its private parts may mean something else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numba
from llvmlite.ir import Argument, LoadInstr
from numba import types
from numba.core import cgutils, ir
from numba.core.datamodel import default_manager, models
from numba.core.lowering import Lower
from numba.np.arrayobj import fix_integer_index, load_item, store_item

TRIED = (0, 61), (0, 68)  # the first and the last version of numba
SHAPE, STRIDES, DATA = 5, 6, 4  # places in numba's arrays
SCALAR = types.Number | types.Boolean


class ShortLower(Lower):
    """Writes down a function."""

    def _find_singly_assigned_variable(self) -> None:
        """Find variables that need no memory; among them those that only name what the caller holds.

        Such a variable is a parameter, a field of one, or another name of these. Where it is set must come before
        where it is read: in the first block, or in the same.
        """
        super()._find_singly_assigned_variable()
        self._borrowed: dict[str, tuple[Any, int | None]] = {}  # parameter or variable, and which field of it
        blocks = sorted(self.blocks.items())
        assigned = [(offset, found) for offset, block in blocks for found in block.find_insts(ir.Assign)]
        times = Counter(found.target.name for _, found in assigned)
        for offset, found in assigned:
            name = found.target.name
            is_set_before = offset == self.firstblk or name in self._singly_assigned_vars
            if times[name] == 1 and is_set_before and not self._disable_sroa_like_opt:
                holder, field, held = self._held_by(found.value)
                if held == self.typeof(name):
                    self._borrowed[name] = holder, field
                    self._singly_assigned_vars.add(name)

    def _held_by(self, value: Any) -> tuple[Any, int | None, Any]:
        """Return which parameter or variable has a value, in which field, and the value's type, None if it is made."""
        if isinstance(value, ir.Arg):
            return value.index, None, self.typeof(f"arg.{value.name}")
        if isinstance(value, ir.Var) and value.name in self._borrowed:
            return value.name, None, self.typeof(value.name)
        if isinstance(value, ir.Expr) and value.op in ("getattr", "static_getitem", "exhaust_iter"):
            holder = value.value.name
            parts = self.typeof(holder)
            if holder not in self._borrowed or not isinstance(parts, types.BaseTuple):
                return None, None, None
            if value.op == "exhaust_iter":
                return holder, None, parts if len(parts) == value.count else None
            fields = getattr(parts, "fields", ()) if value.op == "getattr" else range(len(parts))
            at = value.attr if value.op == "getattr" else value.index
            if at in fields:
                return holder, fields.index(at), parts[fields.index(at)]
        return None, None, None

    def lower_assign(self, kind: Any, found: Any) -> Any:
        """Return what is assigned."""
        if found.target.name not in self._borrowed:
            return super().lower_assign(kind, found)
        holder, field = self._borrowed[found.target.name]
        held = self.fnargs[holder] if isinstance(holder, int) else self.loadvar(holder)
        return held if field is None else self.builder.extract_value(held, field)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Set a variable."""
        if not self._is_counted(name) and name not in self._singly_assigned_vars:
            self.builder.store(value, self.getvar(name))
        else:
            super().storevar(value, name, argidx)

    def delvar(self, name: str) -> None:
        """Let go of a variable."""
        if self._is_counted(name) and name not in self._borrowed:
            super().delvar(name)

    def _is_counted(self, name: str) -> bool:
        model = self.context.data_model_manager[self.typeof(name)]
        return bool(self._disable_sroa_like_opt or model.contains_nrt_meminfo())

    def lower_getitem(self, kind: Any, expression: Any, array: Any, index: Any, signature: Any) -> Any:
        """Return an element."""
        place = self._place(array, index)
        if place is None:
            return super().lower_getitem(kind, expression, array, index, signature)
        of = self.typeof(array.name)
        return self.context.cast(self.builder, load_item(self.context, self.builder, of, place), of.dtype, kind)

    def lower_setitem(self, array: Any, index: Any, value: Any, signature: Any) -> Any:
        """Set an element."""
        given, of = self.typeof(value.name), self.typeof(array.name)
        place = self._place(array, index) if isinstance(given, SCALAR) else None
        if place is None:
            return super().lower_setitem(array, index, value, signature)
        new = self.context.cast(self.builder, self.loadvar(value.name), given, of.dtype)
        return store_item(self.context, self.builder, of, new, place)

    def _place(self, array: Any, index: Any) -> Any:
        """Return where an element is, None if it is not one number of an array."""
        of, kind = self.typeof(array.name), self.typeof(index.name)
        is_tuple = isinstance(kind, types.BaseTuple)
        kinds = kind.types if is_tuple else (kind,)
        if (
            not (isinstance(of, types.Array) and isinstance(of.dtype, SCALAR) and len(kinds) == of.ndim)
            or not all(isinstance(kind, types.Integer) for kind in kinds)
            or self.context.enable_boundscheck
        ):
            return None
        context, builder = self.context, self.builder
        given, held = self.loadvar(index.name), self.loadvar(array.name)
        sizes, steps = ([builder.extract_value(held, [part, d]) for d in range(of.ndim)] for part in (SHAPE, STRIDES))
        numbers = [builder.extract_value(given, d) for d in range(of.ndim)] if is_tuple else [given]
        numbers = [fix_integer_index(context, builder, *each) for each in zip(kinds, numbers, sizes, strict=True)]
        data = builder.extract_value(held, DATA)
        return cgutils.get_item_pointer2(context, builder, data, sizes, steps, of.layout, numbers)

    def lower_expr(self, kind: Any, expression: Any) -> Any:
        """Return an expression's value."""
        if expression.op == "getattr" and expression.attr == "shape":
            array = expression.value.name
            if isinstance(self.typeof(array), types.Array):
                return self.builder.extract_value(self.loadvar(array), SHAPE)
        return super().lower_expr(kind, expression)


class _ByAddress:
    """A tuple that is passed as where it is in memory, where nobody changes it."""

    def get_argument_type(self) -> Any:
        return self.get_value_type().as_pointer()  # type: ignore[attr-defined]

    def as_argument(self, builder: Any, value: Any) -> Any:
        if isinstance(value, LoadInstr) and isinstance(value.operands[0], Argument):
            return value.operands[0]  # which this function was given itself
        with builder.goto_entry_block():
            place = builder.alloca(value.type)
        builder.store(value, place)
        return place

    def from_argument(self, builder: Any, value: Any) -> Any:
        return builder.load(value)


class _NamedTuple(_ByAddress, models.TupleModel):
    pass


class _NamedUniTuple(_ByAddress, models.UniTupleModel):
    pass


def way_to_write(version: tuple[int, int] = numba.version_info.short) -> tuple[type[Lower], Any]:
    """Return what writes down a function, and how values of each type are kept: named tuples are passed by address."""
    if not TRIED[0] <= version <= TRIED[1]:
        return Lower, default_manager
    manager = default_manager.copy()
    manager.register(types.NamedTuple, _NamedTuple)
    manager.register(types.NamedUniTuple, _NamedUniTuple)
    return ShortLower, manager
