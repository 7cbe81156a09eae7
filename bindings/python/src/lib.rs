//! `tenure._core`: the lease machine joined to its wires, in plain Python values.
//!
//! Translation only. An input goes in with a reading of the clocks and of the system's randomness
//! (`mono_us, wall_us, entropy`); a step comes out: `(call, event, wake_at_us)`. The call is ready to
//! be sent; its reply goes back in and gives the next step.

mod config;
mod dynamodb;
mod joined;
mod lease;
mod local;
mod redis;
mod shown;
mod step;
mod trace;

use pyo3::prelude::*;

/// The native module.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::config::Config;
    #[pymodule_export]
    use super::config::check_holder;
    #[pymodule_export]
    use super::config::check_name;
    #[pymodule_export]
    use super::lease::Lease;
    #[pymodule_export]
    use super::redis::RedisClient;
    #[pymodule_export]
    use super::shown::dynamodb_shown;
    #[pymodule_export]
    use super::shown::local_shown;
    #[pymodule_export]
    use super::shown::redis_shown;
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    use super::trace::trace_lines;

    #[pymodule_init]
    fn init(module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods as _;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
