//! What a lease amounts to: everything on which its later outputs depend, as seen from now.
//!
//! For model checking, which must know when two states are one. Times are told from now and rounded up
//! to a grain, what is over is told alike whenever it ended, and counters stop where their effect does.
//! Left out is what only names the reason of an event (`Paused` or `Expired`), and the numbers of calls.
//!
//! Rounding is exact for a model in which time passes in whole grains: a deadline between two of its
//! instants is passed at the later one.

use super::Lease;
use super::phase::{Acquiring, Cause, Flight, Held, Next, Phase, Undoing, Write};
use crate::io::{BusyBecause, Failure};
use crate::record::{Fence, Holder, Identity, Record, Term, Version};
use crate::time::{Fast, Now, Span, Wall};

/// Takes the parts of a shape, in an order that depends on the parts before.
///
/// Versions, identities and fences have methods of their own, since a model only compares them.
pub trait Shape {
    /// A part that is compared as it is.
    fn word(&mut self, word: u64);
    /// The version of an attempt.
    fn version(&mut self, version: Version);
    /// The fingerprint of a record.
    fn identity(&mut self, identity: Identity);
    /// A fencing number.
    fn fence(&mut self, fence: Option<Fence>);
    /// Whether it minds until when what is over for us is looked for in the record.
    fn minds_forgetting(&self) -> bool {
        true
    }
    /// Whether this version may ever be found in the record. Those that cannot are told together.
    fn may_stand(&self, version: Version) -> bool {
        let _ = version;
        true
    }
}

/// Tells shapes as of one reading.
struct Teller<'s, S> {
    grain: u64,
    fast: Fast,
    now: Now,
    shape: &'s mut S,
}

impl Lease {
    /// How many attempts it has made of whose outcome it is not sure.
    #[must_use]
    pub fn in_doubt(&self) -> usize {
        self.ledger.attempts().len()
    }

    /// Tells what it amounts to at `now`, with times in whole `grain`s.
    pub fn shape(&self, now: Now, grain: Span, shape: &mut impl Shape) {
        let mut this = self.clone();
        this.read(&now);
        let fast = this.clock.fast();
        let mut teller = Teller { grain: grain.as_micros().max(1), fast, now, shape };
        teller.span(this.terms.ttl());
        match &this.phase {
            Phase::Idle => teller.shape.word(0),
            Phase::Acquiring(acquiring) => teller.acquiring(&this, acquiring),
            Phase::Held(held) => teller.held(&this, held),
            Phase::Undoing(undoing) => teller.undoing(&this, undoing),
        }
        match &this.flight {
            None => teller.shape.word(0),
            Some(flight) => teller.flight(&this, flight),
        }
        teller.ledger(&this);
        teller.sight(&this);
    }
}

impl<S: Shape> Teller<'_, S> {
    fn span(&mut self, span: Span) {
        let grains = span.as_micros().div_ceil(self.grain);
        self.shape.word(if span.is_forever() { u64::MAX } else { grains });
    }

    fn due(&mut self, at: Fast) {
        self.span(if at == Fast::NEVER { Span::FOREVER } else { at.since(self.fast) });
    }

    fn wall(&mut self, at: Wall) {
        self.span(self.now.wall.map_or(Span::FOREVER, |now| at.since(now)));
    }

    fn flags(&mut self, flags: &[bool]) {
        self.shape.word(flags.iter().fold(0, |word, flag| (word << 1) | u64::from(*flag)));
    }

    /// A counter by which a pause doubles, up to `longest`.
    fn pace(&mut self, counter: u8, shortest: Span, longest: Span, at_least: u8) {
        let mut last = at_least.max(1);
        if longest.as_micros() > self.grain {
            let mut pause = shortest;
            while pause < longest && last < 30 {
                pause = pause.times(2);
                last = last.saturating_add(1);
            }
        }
        self.shape.word(u64::from(counter.min(last)));
    }

    fn failures(&mut self, lease: &Lease, failures: u8, at_least: u8) {
        let longest = lease.config.poll_interval().max(Span::from_millis(20));
        self.pace(failures, Span::from_millis(10), longest, at_least);
    }

    fn acquiring(&mut self, lease: &Lease, acquiring: &Acquiring) {
        self.shape.word(1);
        self.due(acquiring.wait_until);
        self.due(acquiring.next_at);
        self.shape.word(match acquiring.next {
            Next::Write => 0,
            Next::Poll => 1,
            Next::Settle => 2,
        });
        // One that never gives up does not mind why.
        let patient = acquiring.wait_until == Fast::NEVER;
        self.failures(lease, acquiring.failures, 1);
        self.shape.word(match acquiring.cause {
            _ if patient => 0,
            None => 0,
            Some(Cause::Busy(BusyBecause::Held)) => 1,
            Some(Cause::Busy(BusyBecause::Resting)) => 2,
            Some(Cause::Busy(BusyBecause::Unjudgeable)) => 3,
            Some(Cause::Failed(Failure::Unavailable)) => 4,
            Some(Cause::Failed(Failure::Denied)) => 5,
            Some(Cause::Failed(Failure::Unknown)) => 6,
        });
        if lease.names_one() {
            self.shape.version(acquiring.claim.unwrap_or(Version::NONE));
        }
        self.shape.version(acquiring.doubted.unwrap_or(Version::NONE));
    }

    fn held(&mut self, lease: &Lease, held: &Held) {
        self.shape.word(2);
        self.shape.version(held.version);
        self.shape.fence(held.fence);
        self.span(held.ttl);
        self.due(held.acquired_at.after(lease.config.settings().min_hold));
        self.due(held.until);
        self.due(held.renew_at);
        self.failures(lease, held.failures, 1);
        self.flags(&[held.asked, held.at_risk_told, held.settle, held.ended]);
    }

    fn undoing(&mut self, lease: &Lease, undoing: &Undoing) {
        self.shape.word(3);
        self.shape.word(undoing.goal as u64);
        self.due(undoing.next_at);
        if undoing.failures == u8::MAX {
            self.shape.word(u64::MAX);
        } else {
            self.failures(lease, undoing.failures, 1);
        }
        let poll = lease.config.poll_interval();
        self.pace(undoing.sweeps, poll, poll.max(lease.config.first_terms().ttl.part(10)), 1);
        self.due(undoing.rest_until);
        self.shape.version(undoing.offer);
    }

    fn flight(&mut self, lease: &Lease, flight: &Flight) {
        self.shape.word(1);
        self.shape.word(flight.write as u64);
        self.shape.version(flight.attempt);
        if flight.write == Write::Renew {
            self.due(lease.renew_at(flight.sent, flight.ttl));
        }
        self.due(flight.until);
        self.span(flight.ttl);
        self.due(flight.give_up);
        self.flags(&[flight.first]);
    }

    fn ledger(&mut self, lease: &Lease) {
        let (mut dead, mut dead_open) = (false, false);
        for attempt in lease.ledger.attempts() {
            if !self.shape.may_stand(attempt.version) {
                dead = true;
                dead_open |= !attempt.retired;
                continue;
            }
            self.shape.word(1);
            self.shape.version(attempt.version);
            self.flags(&[attempt.retired]);
            // Of a retired attempt nobody asks any more what grant it would have given.
            if !attempt.retired {
                self.due(attempt.until);
                self.span(attempt.ttl);
                self.flags(&[attempt.loose, attempt.takeover]);
            }
            if self.shape.minds_forgetting() {
                self.span(attempt.gone_at.since(self.now.mono));
                self.flags(&[attempt.loose, attempt.again]);
            }
        }
        self.shape.word(0);
        // They are looked for, but nothing can come of it: how many, and how long yet, is left out.
        self.flags(&[dead, dead_open]);
    }

    fn sight(&mut self, lease: &Lease) {
        let Some(sight) = &lease.seen else {
            self.shape.word(0);
            return;
        };
        self.shape.word(1);
        self.record(&sight.record, |teller, ttl| {
            let enough = ttl.plus(lease.config.margin(ttl)).plus(Span::from_micros(1));
            teller.span(enough.minus(lease.stood_for(sight)));
        });
        if let Term::Remaining { left: Some(left) } = sight.record.term {
            self.span(left.minus(self.now.mono.since(sight.read_at)));
        }
        self.flags(&[sight.broken]);
    }

    /// A record, with what is left to watch of a ttl told by `left_of`.
    fn record(&mut self, record: &Record, left_of: impl Fn(&mut Self, Span)) {
        self.shape.word(match record.holder {
            Holder::Nobody => 0,
            Holder::Us => 1,
            Holder::OfferedToUs => 2,
            Holder::Other => 3,
        });
        self.shape.version(record.version);
        self.shape.identity(record.identity);
        match record.term {
            Term::Over => self.shape.word(0),
            Term::Observed { ttl } => {
                self.shape.word(1);
                self.span(ttl);
                left_of(self, ttl);
            }
            Term::Bounded { ttl, expires_at, max_clock_skew } => {
                self.shape.word(2);
                self.span(ttl);
                left_of(self, ttl);
                self.wall(expires_at.after(max_clock_skew));
            }
            Term::WallOnly { expires_at } => {
                self.shape.word(3);
                self.wall(expires_at);
            }
            Term::Resting { rest, not_before } => {
                self.shape.word(4);
                left_of(self, rest);
                self.wall(not_before.unwrap_or(Wall::from_micros(0)));
            }
            Term::Remaining { left } => {
                self.shape.word(5);
                self.flags(&[left.is_some()]);
            }
        }
    }
}
