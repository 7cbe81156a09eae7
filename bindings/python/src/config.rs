//! Settings, checked by the core.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use tenure_core::config::{self, ConfigError, Expiry, Settings, Ttl, Versions};
use tenure_core::record::{self, ClockId, HolderId, TextError};
use tenure_core::time::Span;

/// Settings that were found to work. A `ValueError(field, why)` says which one does not.
#[pyclass(frozen, module = "tenure._core")]
pub(crate) struct Config(pub(crate) config::Config);

#[pymethods]
impl Config {
    /// `expiry` is `observed`, `bounded` or `store`; `ttl_us` `None` is for ever. Intervals left
    /// `None` have the core's defaults.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "one for each setting, positional")]
    fn new(
        expiry: &str,
        ttl_us: Option<u64>,
        max_clock_skew_us: u64,
        per_claim: bool,
        renew_interval_us: Option<u64>,
        poll_interval_us: Option<u64>,
        call_timeout_us: Option<u64>,
        rate_error_ppm: u32,
        min_hold_us: u64,
        clock: Option<u128>,
    ) -> PyResult<Self> {
        let expiry = match expiry {
            "observed" => Expiry::Observed,
            "bounded" => Expiry::Bounded { max_clock_skew: Span::from_micros(max_clock_skew_us) },
            "store" => Expiry::Store,
            _ => return Err(PyValueError::new_err(("expiry", "is not known"))),
        };
        let mut settings = Settings::new(ttl(ttl_us), expiry);
        if per_claim {
            settings.versions = Versions::PerClaim;
        }
        settings.renew_interval = renew_interval_us.map(Span::from_micros);
        settings.poll_interval = poll_interval_us.map(Span::from_micros);
        settings.call_timeout = call_timeout_us.map(Span::from_micros);
        settings.rate_error_ppm = rate_error_ppm;
        settings.min_hold = Span::from_micros(min_hold_us);
        settings.clock = clock.map(ClockId);
        config::Config::new(settings).map(Self).map_err(invalid)
    }

    /// After how long without an answer a call counts as unknown.
    #[getter]
    fn call_timeout_us(&self) -> u64 {
        self.0.call_timeout().as_micros()
    }
}

pub(crate) fn ttl(micros: Option<u64>) -> Ttl {
    micros.map_or(Ttl::Forever, |micros| Ttl::For(Span::from_micros(micros)))
}

pub(crate) fn invalid(error: ConfigError) -> PyErr {
    PyValueError::new_err((error.field(), error.why()))
}

/// `ValueError("name", why)` unless this can name a lease.
#[pyfunction]
pub(crate) fn check_name(name: &str) -> PyResult<()> {
    record::check_name(name)
        .map_err(|error: TextError| PyValueError::new_err(("name", error.why())))
}

/// `ValueError("holder", why)` unless this can be a holder's id.
#[pyfunction]
pub(crate) fn check_holder(holder: &str) -> PyResult<()> {
    HolderId::new(holder).map(drop).map_err(|error| PyValueError::new_err(("holder", error.why())))
}
