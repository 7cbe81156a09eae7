//! Rows of the reference store as tuples, for stores that the host keeps itself (memory, SQLite).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use tenure_core::memory::{Boot, Ends, Parts, Row};
use tenure_core::record::{HolderId, Version};
use tenure_core::time::{Instant, Span};

use crate::step::bits;

/// `(holder, offered, version, ttl_us, ends_at_us, fence, machine, boot)`, as the core's `Parts`
/// have it; `ttl_us` is -1 for ever. Machine and boot say whose clock `ends_at_us` belongs to.
pub(crate) type RowTuple = (Option<String>, bool, String, i64, u64, u64, String, String);

pub(crate) fn boot(machine: &str, boot: &str) -> PyResult<Boot> {
    Ok(Boot { machine: bits(machine)?, boot: bits(boot)? })
}

/// The row as of this start of this machine. A new one draws its fences from above `fence_floor`.
pub(crate) fn row(
    tuple: Option<&RowTuple>,
    fence_floor: u64,
    here: Boot,
) -> PyResult<Row<HolderId>> {
    let Some((holder, offered, version, ttl_us, ends_at_us, fence, machine, written_boot)) = tuple
    else {
        return Ok(Row::new(Ends::ByStore, fence_floor));
    };
    let unreadable = |why: &str| PyValueError::new_err(format!("a row that is no lease: {why}"));
    let holder = holder
        .as_deref()
        .map(HolderId::new)
        .transpose()
        .map_err(|_| unreadable("its holder is not one"))?;
    let version = Version::from_hex(version.as_bytes())
        .ok_or_else(|| unreadable("its version is not one"))?;
    let ttl = match *ttl_us {
        -1 => Span::FOREVER,
        ttl => {
            Span::from_micros(u64::try_from(ttl).map_err(|_| unreadable("its ttl is negative"))?)
        }
    };
    let parts = Parts {
        holder,
        offered: *offered,
        version,
        ttl,
        ends_at: Instant::from_micros(*ends_at_us),
        fence: *fence,
    };
    let written = boot(machine, written_boot)?;
    parts.since(written, here).map(Row::from_parts).map_err(|_| {
        PyValueError::new_err(
            "the name is held on another machine, whose clock cannot be judged from this one; a \
             SQLite file serves the processes of one machine",
        )
    })
}

pub(crate) fn tuple(row: &Row<HolderId>, (machine, boot): (&str, &str)) -> RowTuple {
    let parts = row.parts();
    (
        parts.holder.map(|holder| holder.as_str().to_owned()),
        parts.offered,
        String::from_utf8_lossy(&parts.version.to_hex()).into_owned(),
        if parts.ttl.is_forever() {
            -1
        } else {
            i64::try_from(parts.ttl.as_micros()).unwrap_or(i64::MAX)
        },
        parts.ends_at.as_micros().min(i64::MAX as u64),
        parts.fence,
        machine.to_owned(),
        boot.to_owned(),
    )
}
