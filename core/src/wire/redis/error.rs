//! What an error reply means.
//!
//! Judged by its code, and where a server gives only `ERR` by how its text begins: wordings change
//! between versions (7.0 says "this user has no permissions", 8 "User x has no permissions"), and
//! client libraries cut codes off (redis-py cuts off `ERR`).

/// The kinds of error replies. All but [`Class::Unclear`] come before any effect on the lease: a
/// server refuses a command before it runs it, and the scripts write the lease last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The script is not cached: a normal answer at any time, since caches forget.
    NoScript,
    /// The server does not know this form.
    Unsupported,
    /// This user may not use this form, or not on this key.
    NoPermission,
    /// A transaction was discarded, and it is not said why.
    Aborted,
    /// Out of memory: only commands that need none are served.
    Full,
    /// Not now.
    Passing,
    /// Not as long as nobody changes anything.
    Lasting,
    /// A proxy lost sight of the request: it may have taken effect.
    Unclear,
}

impl Class {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut text = bare(text);
        if text.starts_with(b"EXECABORT") {
            match after(text, b"because of: ") {
                Some(cause) => text = bare(cause),
                None => return Self::Aborted,
            }
        }
        // Before Redis 7 an error within a script stands at the end of another one.
        if has(text, b"error running script") {
            text = after(text, b": ").map_or(text, bare);
        }
        match text.split(|byte| *byte == b' ').next().unwrap_or(text) {
            b"NOSCRIPT" => Self::NoScript,
            b"NOPERM" => Self::NoPermission,
            b"OOM" => Self::Full,
            b"ASK" | b"BUSY" | b"CLUSTERDOWN" | b"LOADING" | b"MASTERDOWN" | b"MISCONF"
            | b"MOVED" | b"NOREPLICAS" | b"READONLY" | b"REDIRECT" | b"TRYAGAIN"
            | b"UNKILLABLE" => Self::Passing,
            _ => Self::by_wording(text),
        }
    }

    fn by_wording(text: &[u8]) -> Self {
        const UNSUPPORTED: [&[u8]; 5] = [
            b"unknown command",
            b"unknown redis command",
            b"unknown subcommand",
            b"syntax error",
            b"wrong number of arg",
        ];
        // To a command within a script: Redis 7.0, and later ones.
        const NO_PERMISSION: [&[u8]; 2] =
            [b"the user executing the script can't", b"acl failure in script"];
        let begins = |with: &[u8]| {
            text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
        };
        if UNSUPPORTED.into_iter().any(begins) {
            Self::Unsupported
        } else if NO_PERMISSION.into_iter().any(begins) {
            Self::NoPermission
        } else if begins(b"max number of clients") || begins(b"no upstream host") {
            Self::Passing
        } else if begins(b"upstream") || has(text, b"timed out") {
            Self::Unclear
        } else {
            Self::Lasting
        }
    }
}

/// Without what stands before the code or, for plain errors, in place of one.
fn bare(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = text.strip_prefix(b"ERR ").unwrap_or(text);
    // redis-py says in front which command of a pipeline it was, with its arguments.
    match text.strip_prefix(b"Command # ") {
        Some(rest) => after(rest, b" of pipeline caused error: ").unwrap_or(text),
        None => text,
    }
}

/// What follows the last `mark`.
fn after<'a>(text: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(mark.len()).rposition(|window| window == mark)?;
    text.get(at.saturating_add(mark.len())..)
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
