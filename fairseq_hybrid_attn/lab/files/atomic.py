"""The old name of four modules, until everybody imports from them."""

from .json_files import write_json

__all__ = "atomic_write check_outputs digest file_identity read_json read_lines sha256".split()
__all__ += ["write_json"]
