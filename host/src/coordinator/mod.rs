//! The control plane: drives the pure machines of `weir-protocol`.
