//! Redis requests as argument lists of bytes, and replies of any Python client.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use tenure_core::wire::redis::{Arg, Redis, Reply, Request};

/// What was learned about one client, shared by its leases.
#[pyclass(frozen, module = "tenure._core")]
pub(crate) struct RedisClient(Mutex<Redis>);

impl RedisClient {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Redis> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl RedisClient {
    /// With `fence`, acquisitions draw fencing numbers where the user may.
    #[new]
    fn new(fence: bool) -> Self {
        Self(Mutex::new(Redis::new(fence)))
    }
}

/// A request, owned: the arguments of each command, and whether they are one transaction.
pub(crate) struct OwnedRequest {
    commands: Vec<Vec<Vec<u8>>>,
    transaction: bool,
}

impl OwnedRequest {
    pub(crate) fn new(request: &Request<'_>) -> Self {
        let bytes = |arg: &Arg<'_>| {
            let mut bytes = Vec::new();
            arg.write(|part| bytes.extend_from_slice(part));
            bytes
        };
        let commands =
            request.commands.iter().map(|c| c.args().iter().map(bytes).collect()).collect();
        Self { commands, transaction: request.transaction }
    }

    /// `(commands, transaction)`.
    pub(crate) fn into_python<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let commands = PyList::empty(py);
        for command in &self.commands {
            commands.append(PyList::new(py, command.iter().map(|arg| PyBytes::new(py, arg)))?)?;
        }
        (commands, self.transaction).into_pyobject(py)
    }
}

/// A reply, copied: `None`, an integer, bytes or text, a list, or `(text,)` for an error.
pub(crate) enum OwnedReply {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Error(Vec<u8>),
    List(Vec<Self>),
}

impl OwnedReply {
    pub(crate) fn new(reply: &Bound<'_, PyAny>) -> PyResult<Self> {
        if reply.is_none() {
            return Ok(Self::Nil);
        }
        if let Ok(bytes) = reply.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.as_bytes().to_vec()));
        }
        if let Ok(text) = reply.extract::<String>() {
            return Ok(Self::Bytes(text.into_bytes()));
        }
        if let Ok((error,)) = reply.extract::<(String,)>() {
            return Ok(Self::Error(error.into_bytes()));
        }
        if let Ok(list) = reply.cast::<PyList>() {
            return list
                .iter()
                .map(|reply| Self::new(&reply))
                .collect::<PyResult<_>>()
                .map(Self::List);
        }
        reply.extract().map(Self::Int)
    }

    /// The reply; if it is a list, of what `inner` gave. Nothing that is read has lists in lists.
    pub(crate) fn borrow<'a>(&'a self, list: &'a [Reply<'a>]) -> Reply<'a> {
        match self {
            Self::Nil => Reply::Nil,
            Self::Int(number) => Reply::Int(*number),
            Self::Bytes(bytes) => Reply::Bytes(bytes),
            Self::Error(text) => Reply::Error(text),
            Self::List(_) => Reply::List(list),
        }
    }

    pub(crate) fn inner(&self) -> Vec<Reply<'_>> {
        match self {
            Self::List(list) => list.iter().map(|reply| reply.borrow(&[])).collect(),
            _ => Vec::new(),
        }
    }
}
