//! The ports' own tasks: one per port, none of which ever serves a request itself.

pub(crate) mod connect;
pub(crate) mod listen;
