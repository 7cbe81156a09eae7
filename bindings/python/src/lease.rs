//! One contender: the machine, its texts, and its wire.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use tenure_core::io::{CallId, Input, Outcome, Wait};
use tenure_core::lease::State;
use tenure_core::record::{ClockId, HolderId, Identity, Observation};
use tenure_core::time::{Instant, Now, Span, Wall};
use tenure_core::wire::dynamodb as dynamodb_wire;

use crate::config::{Config, invalid, ttl};
use crate::dynamodb::{Key, OwnedItem, OwnedRow};
use crate::joined::{Joined, Raw, RedisWire, Wire};
use crate::local::RowTuple;
use crate::redis::{OwnedReply, RedisClient};
use crate::step::{Reading, bits, micros, reading};
use crate::trace::Trace;

/// One contender for one name. Safe to share between threads; every method is short.
#[pyclass(frozen, module = "tenure._core")]
pub(crate) struct Lease(Mutex<Joined>);

type Stepped<'py> = PyResult<Bound<'py, PyTuple>>;
type ObservationTuple = (String, u64, u64, Option<String>, u64, Option<u64>);

#[pymethods]
impl Lease {
    /// A contender for a row of a table, by boto3.
    #[staticmethod]
    fn dynamodb(
        config: &Config,
        name: String,
        holder: String,
        hash_key: String,
        sort_key: Option<(String, String)>,
    ) -> Self {
        let key = Key { hash_key, sort_key };
        Self::new(config, name, holder, Wire::DynamoDb { key, row: OwnedRow::default() })
    }

    /// A contender for a key; `name` is the whole key.
    #[staticmethod]
    fn redis(
        config: &Config,
        name: String,
        holder: String,
        client: Py<RedisClient>,
        fence_key: String,
    ) -> Self {
        Self::new(config, name, holder, Wire::Redis(RedisWire::new(client, fence_key)))
    }

    /// A contender for a row that the host keeps.
    #[staticmethod]
    fn local(config: &Config, name: String, holder: String) -> Self {
        Self::new(config, name, holder, Wire::Local { outcome: Outcome::Unknown })
    }

    /// Takes the lease; `wait_us` 0 is one try, `None` for ever.
    fn acquire<'py>(&self, py: Python<'py>, now: Reading, wait_us: Option<u64>) -> Stepped<'py> {
        let wait = match wait_us {
            Some(0) => Wait::No,
            Some(micros) => Wait::For(Span::from_micros(micros)),
            None => Wait::Forever,
        };
        self.input(py, now.0, Input::Acquire { wait })
    }

    /// Renews it now; `new_ttl` is `None` to keep the terms, or `(ttl_us | None for ever,)`.
    fn renew<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        new_ttl: Option<(Option<u64>,)>,
    ) -> Stepped<'py> {
        let terms = match new_ttl {
            Some((micros,)) => {
                Some(self.lock().lease.config().terms(ttl(micros)).map_err(invalid)?)
            }
            None => None,
        };
        self.input(py, now.0, Input::Renew { terms })
    }

    /// Gives it up.
    fn release<'py>(&self, py: Python<'py>, now: Reading) -> Stepped<'py> {
        self.input(py, now.0, Input::Release)
    }

    /// Stops acquiring.
    fn cancel<'py>(&self, py: Python<'py>, now: Reading) -> Stepped<'py> {
        self.input(py, now.0, Input::Cancel)
    }

    /// Names a successor.
    fn hand_over<'py>(&self, py: Python<'py>, now: Reading, to: String) -> Stepped<'py> {
        HolderId::new(&to).map_err(|error| PyValueError::new_err(("to", error.why())))?;
        self.lock().successor = Some(to);
        self.input(py, now.0, Input::HandOver)
    }

    /// Takes the name from the record of this identity, whose texts are `raw`.
    fn break_<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        identity: &str,
        raw: Option<Raw>,
    ) -> Stepped<'py> {
        let seen = Identity(bits(identity)?);
        if let Some(raw) = raw {
            self.lock().saw(raw);
        }
        self.input(py, now.0, Input::Break { seen })
    }

    /// Time passed.
    fn tick<'py>(&self, py: Python<'py>, now: Reading) -> Stepped<'py> {
        self.input(py, now.0, Input::Tick)
    }

    /// The name may have become free.
    fn wake<'py>(&self, py: Python<'py>, now: Reading) -> Stepped<'py> {
        self.input(py, now.0, Input::Wake)
    }

    /// Takes in an observation as `observation` gave it, maybe to another process.
    fn observe<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        observation: ObservationTuple,
    ) -> Stepped<'py> {
        let (identity, ttl, proven, clock, mono, wall) = observation;
        let observation = Observation {
            identity: Identity(bits(&identity)?),
            ttl: Span::from_micros(ttl),
            proven_for: Span::from_micros(proven),
            clock: clock.as_deref().map(bits).transpose()?.map(ClockId),
            mono: Instant::from_micros(mono),
            wall: wall.map(Wall::from_micros),
        };
        self.input(py, now.0, Input::Observe { observation })
    }

    /// No answer came to this call.
    fn unknown<'py>(&self, py: Python<'py>, now: Reading, call_id: u32) -> Stepped<'py> {
        self.completed(py, now.0, call_id, Outcome::Unknown)
    }

    /// This call is known not to have been applied; `lasting` if that will not pass by itself.
    fn unavailable<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        call_id: u32,
        lasting: bool,
    ) -> Stepped<'py> {
        let outcome = if lasting { Outcome::Denied } else { Outcome::Unavailable };
        self.completed(py, now.0, call_id, outcome)
    }

    /// DynamoDB answered: `how` is `applied`, `refused` or `found`, with the item that came.
    fn item<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        call_id: u32,
        how: &str,
        item: Option<&Bound<'py, PyDict>>,
    ) -> Stepped<'py> {
        let item = OwnedItem::of(item)?;
        let outcome = self.lock().read_item(call_id, how, item.as_ref())?;
        self.completed(py, now.0, call_id, outcome)
    }

    /// DynamoDB answered with an error other than a failed condition.
    fn error<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        call_id: u32,
        code: &str,
        status: u16,
    ) -> Stepped<'py> {
        let outcome = dynamodb_wire::outcome_of_error(code, status);
        self.completed(py, now.0, call_id, outcome)
    }

    /// Redis answered, a reply for each command (an error as `(text,)`).
    fn replies<'py>(
        &self,
        py: Python<'py>,
        now: Reading,
        call_id: u32,
        replies: Vec<Bound<'py, PyAny>>,
    ) -> Stepped<'py> {
        let replies = replies.iter().map(OwnedReply::new).collect::<PyResult<Vec<_>>>()?;
        let outcome = self.lock().read_replies(call_id, &replies)?;
        match outcome {
            Some(outcome) => self.completed(py, now.0, call_id, outcome),
            // To be put in another form, unless it was given up: then it must not be sent any more.
            None => {
                if self.lock().lease.awaited() != Some(CallId(call_id)) {
                    return self.completed(py, now.0, call_id, Outcome::Unknown);
                }
                let step = self.lock().same_call();
                step.into_python(py)
            }
        }
    }

    /// Carries the call out on a row of the host's, at the store's time. Gives the row to keep, or
    /// `None` to keep the one that is there. The outcome counts once `carried` says so.
    fn carry_out(
        &self,
        call_id: u32,
        row: Option<RowTuple>,
        store_us: u64,
        fence_floor: u64,
        machine: &str,
        boot: &str,
    ) -> PyResult<Option<RowTuple>> {
        self.lock().carry_out(CallId(call_id), row.as_ref(), store_us, fence_floor, (machine, boot))
    }

    /// What `carry_out` did is kept.
    fn carried<'py>(&self, py: Python<'py>, now: Reading, call_id: u32) -> Stepped<'py> {
        let outcome = self.lock().carried();
        self.completed(py, now.0, call_id, outcome)
    }

    /// `(fence, valid_for_us)` while it is held at this reading, else `None`.
    fn grant(&self, mono_us: u64, wall_us: Option<u64>) -> Option<(Option<u64>, Option<u64>)> {
        let now = reading(mono_us, wall_us, 0);
        let mut joined = self.lock();
        joined.asked(now);
        let grant = joined.lease.grant(now)?;
        Some((grant.fence.map(|fence| fence.0), micros(grant.valid_for)))
    }

    /// `acquiring`, `held`, `releasing` or `idle`.
    fn state(&self) -> &'static str {
        match self.lock().lease.state() {
            State::Acquiring => "acquiring",
            State::Held => "held",
            State::Releasing => "releasing",
            _ => "idle",
        }
    }

    /// Records everything that goes in from here on; before the first input.
    fn record(&self, trace: Py<Trace>) {
        self.lock().record(trace);
    }

    /// The call whose outcome is awaited; the outcome of any other is ignored.
    fn awaited(&self) -> Option<u32> {
        self.lock().lease.awaited().map(|id| id.0)
    }

    /// Evidence for a later contender.
    fn observation(&self, mono_us: u64, wall_us: Option<u64>) -> Option<ObservationTuple> {
        let now = reading(mono_us, wall_us, 0);
        let mut joined = self.lock();
        joined.asked(now);
        let observation = joined.lease.observation(now)?;
        Some((
            format!("{:032x}", observation.identity.0),
            observation.ttl.as_micros(),
            observation.proven_for.as_micros(),
            observation.clock.map(|clock| format!("{:032x}", clock.0)),
            observation.mono.as_micros(),
            observation.wall.map(Wall::as_micros),
        ))
    }

    /// Why the store would not, in its words, if it said so.
    fn complaint(&self) -> Option<String> {
        self.lock().complaint.clone()
    }
}

impl Lease {
    fn new(config: &Config, name: String, holder: String, wire: Wire) -> Self {
        Self(Mutex::new(Joined::new(config.0, name, holder, wire)))
    }

    fn lock(&self) -> MutexGuard<'_, Joined> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn input<'py>(&self, py: Python<'py>, now: Now, input: Input) -> Stepped<'py> {
        let step = self.lock().handle(now, input);
        // Only now, without the lock: making values of Python can run anything.
        step.into_python(py)
    }

    fn completed<'py>(
        &self,
        py: Python<'py>,
        now: Now,
        call_id: u32,
        outcome: Outcome,
    ) -> Stepped<'py> {
        self.input(py, now, Input::Completed { id: CallId(call_id), outcome })
    }
}
