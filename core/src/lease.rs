//! The machine: every transition of a lease is in this file, and nothing else assigns [`Phase`].
//!
//! Three rules explain most of it.
//!
//! * **A grant rests on an attempt that is known to be applied, and counts from its sending.** So
//!   every attempt is entered in the [`Ledger`] before it is sent. A record that shows an open
//!   version of ours proves that attempt; nothing else proves one.
//! * **What has ended is retired.** A retired version is never adopted; where it stands in the
//!   record it is released, or replaced if we want the name again.
//! * **One call is in flight at most.** What is wished for meanwhile waits for its end.

use crate::config::{Config, Polling, Terms, Versions};
use crate::io::{
    BusyBecause, Call, CallId, CallKind, Event, Failure, Grant, Input, LostReason, OurVersions,
    Outcome, Output, Wait,
};
use crate::ledger::{Attempt, Ledger};
use crate::record::{Fence, Holder, Observation, Record, Sight, Term, Version};
use crate::time::{Clock, Fast, Instant, Now, Span, Wall};

/// One contender for one name.
#[derive(Clone, Debug)]
pub struct Lease {
    config: Config,
    clock: Clock,
    /// What the next renewal asks for.
    terms: Terms,
    phase: Phase,
    flight: Option<Flight>,
    ledger: Ledger,
    /// Outlives a try, so that the next one may find the holder's time over.
    seen: Option<Sight>,
    calls: u32,
    /// The longest time for which nobody asked anything since the last input.
    gap: Span,
}

/// What a lease is doing, for people and hosts. Whether it is held *now* is for
/// [`Lease::grant`] to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Asking for the name, or waiting to ask again.
    Acquiring,
    /// Held when it was last looked at.
    Held,
    /// Nothing is held, asked for, or left to undo.
    Idle,
    /// Giving up what is, or may be, ours in the store.
    Releasing,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle,
    Acquiring(Acquiring),
    Held(Held),
    Undoing(Undoing),
}

#[derive(Clone, Copy, Debug)]
struct Acquiring {
    wait_until: Fast,
    next: Next,
    next_at: Fast,
    /// Tries without an answer in a row.
    failures: u8,
    /// How the last try ended; none has yet at first.
    cause: Option<Cause>,
    /// One version for all attempts, where that is how versions go.
    claim: Option<Version>,
    /// A refused attempt that a client library may have sent twice: ours if the record shows it.
    doubted: Option<Version>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    /// Try to write.
    Write,
    /// Look again.
    Poll,
    /// Find out what stands there.
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Busy(BusyBecause),
    Failed(Failure),
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Known to have been applied.
    version: Version,
    fence: Option<Fence>,
    /// The ttl that the record carries.
    ttl: Span,
    /// Until when a copy of the acquire may land; it was sent more than once.
    copy_until: Option<Instant>,
    /// When the write that made the grant was sent; `min_hold` counts from here.
    acquired_at: Fast,
    until: Fast,
    renew_at: Fast,
    /// Renewals without an answer in a row.
    failures: u8,
    /// The application asked for a renewal, or for other terms.
    asked: bool,
    at_risk_told: bool,
    /// A renewal was refused by a store that did not say why, and some other version of ours may
    /// stand there.
    settle: bool,
    /// The same, but nothing else can: belief has ended, and the reason is being looked up.
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Undoing {
    goal: Goal,
    next_at: Fast,
    failures: u8,
    /// How often it looked for what may yet land.
    sweeps: u8,
    /// Until when a released name stays taken.
    rest_until: Fast,
    /// The version of a hand-over. One for all its sendings: no grant is counted from it.
    offer: Version,
}

/// What the application waits to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    HandOver,
    Quiet,
    Release,
}

/// The call in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    id: CallId,
    write: Write,
    attempt: Version,
    sent: Fast,
    until: Fast,
    ttl: Span,
    give_up: Fast,
    /// This sending is the first of its version.
    first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Acquire,
    HandOver,
    Read,
    Release,
    Renew,
    Takeover,
}

impl Lease {
    /// A contender that has done nothing yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self {
            terms: config.lasting_terms(),
            config,
            clock: Clock::new(),
            phase: Phase::Idle,
            flight: None,
            ledger: Ledger::new(),
            seen: None,
            calls: 0,
            gap: Span::ZERO,
        }
    }

    /// Takes one input and answers it. Never fails, never panics; what makes no sense (now) changes
    /// nothing.
    pub fn handle(&mut self, now: Now, input: Input) -> Output {
        self.read(&now);
        let mut event = self.apply(&now, input);
        if event.is_none() {
            event = self.pass_time(&now);
        }
        self.ledger.prune(now.mono);
        let event = self.finish_undoing(event);
        self.gap = Span::ZERO;
        let call = self.next_call(&now);
        Output { call, event, wake_at: self.wake_at(&now) }
    }

    /// The grant, if it is valid at `now`. Ends by itself: no timer or reply is needed.
    pub fn grant(&mut self, now: Now) -> Option<Grant> {
        // The fast age never goes back, so what has ended once stays ended.
        self.read(&now);
        match &self.phase {
            Phase::Held(held) if held.is_valid(self.clock.fast()) => {
                Some(held.grant(self.clock.fast()))
            }
            _ => None,
        }
    }

    /// What it is doing.
    #[must_use]
    pub const fn state(&self) -> State {
        match self.phase {
            Phase::Idle => State::Idle,
            Phase::Acquiring(_) => State::Acquiring,
            Phase::Held(_) => State::Held,
            Phase::Undoing(_) => State::Releasing,
        }
    }

    /// The call whose outcome is awaited. A host that has others queued may drop them.
    #[must_use]
    pub fn awaited(&self) -> Option<CallId> {
        self.flight.map(|flight| flight.id)
    }

    /// The config it was made of.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What it saw of the record in its way, to be handed to a later contender: a process that
    /// lives shorter than a ttl cannot see a dead holder's time pass otherwise.
    pub fn observation(&mut self, now: Now) -> Option<Observation> {
        self.read(&now);
        let sight = self.seen.as_ref()?;
        let (Term::Observed { ttl } | Term::Bounded { ttl, .. }) = sight.record.term else {
            return None;
        };
        Some(Observation {
            identity: sight.record.identity,
            ttl,
            proven_for: self.stood_for(sight),
            clock: self.config.settings().clock,
            mono: now.mono,
            wall: now.wall.zip(self.config.max_clock_skew()).map(|(wall, skew)| wall.after(skew)),
        })
    }
}

/// Inputs.
impl Lease {
    fn read(&mut self, now: &Now) {
        let before = self.clock.fast();
        self.clock.advance(now);
        self.gap = self.gap.max(self.clock.fast().since(before));
    }

    fn apply(&mut self, now: &Now, input: Input) -> Option<Event> {
        match (input, self.phase) {
            (Input::Acquire { wait }, Phase::Idle | Phase::Undoing(_)) => {
                self.acquire(wait);
                None
            }
            (Input::Renew { terms }, Phase::Held(ref held)) => {
                self.terms = terms.unwrap_or(self.terms);
                self.phase = Phase::Held(Held { asked: true, ..*held });
                None
            }
            (Input::Release | Input::Cancel, Phase::Held(held)) => {
                self.undo(now, Goal::Release, Some(&held));
                None
            }
            (Input::HandOver, Phase::Held(held)) => {
                self.undo(now, Goal::HandOver, Some(&held));
                None
            }
            (Input::Release | Input::Cancel, Phase::Acquiring(_)) => {
                self.undo(now, Goal::Quiet, None);
                Some(Event::Cancelled)
            }
            (Input::Observe { observation }, _) => {
                self.import(now, &observation);
                None
            }
            (Input::Break { seen }, Phase::Idle | Phase::Undoing(_)) => {
                let term = Term::Remaining { left: None };
                let record = Record { holder: Holder::Other, identity: seen, term, ..Record::FREE };
                self.seen = None;
                self.look_at(now, record);
                self.seen = self.seen.map(|sight| Sight { broken: true, ..sight });
                self.acquire(Wait::No);
                None
            }
            (Input::Wake, Phase::Acquiring(acquiring)) => {
                self.phase = Phase::Acquiring(Acquiring {
                    next: Next::Write,
                    next_at: self.clock.fast(),
                    ..acquiring
                });
                None
            }
            (Input::Completed { id, outcome }, _) => {
                let flight = self.flight.take_if(|flight| flight.id == id)?;
                self.completed(now, &flight, outcome)
            }
            _ => None,
        }
    }

    fn acquire(&mut self, wait: Wait) {
        let fast = self.clock.fast();
        let wait_until = match wait {
            Wait::No => fast,
            Wait::For(span) => fast.after(span),
            Wait::Forever => Fast::NEVER,
        };
        self.terms = self.config.lasting_terms();
        self.phase = Phase::Acquiring(Acquiring {
            wait_until,
            next: Next::Write,
            next_at: fast,
            failures: 0,
            cause: None,
            claim: None,
            doubted: None,
        });
    }

    /// Rule 3 of the clocks: a reading is evidence only for those who share the clock; anybody else
    /// takes the Unix clock's word if a bound on its error was declared, and twice that bound off.
    fn import(&mut self, now: &Now, observation: &Observation) {
        let shares_clock = observation.clock.is_some()
            && observation.clock == self.config.settings().clock
            && now.mono >= observation.mono;
        let since_then = if shares_clock {
            now.mono.since(observation.mono)
        } else {
            match (self.config.max_clock_skew(), now.wall, observation.wall) {
                // The observer's bound is in its reading already.
                (Some(skew), Some(to), Some(from)) => to.since(from).minus(skew),
                _ => Span::ZERO,
            }
        };
        let proven = observation.proven_for.plus(since_then);
        match &mut self.seen {
            Some(sight) if sight.record.identity == observation.identity => {
                let stood = sight.proven.plus(self.clock.slow().since(sight.since));
                if proven > stood {
                    *sight = Sight { proven, since: self.clock.slow(), ..*sight };
                }
            }
            Some(_) => {}
            empty => {
                let term = Term::Observed { ttl: observation.ttl };
                let record = Record {
                    holder: Holder::Other,
                    identity: observation.identity,
                    term,
                    ..Record::FREE
                };
                *empty = Some(Sight {
                    record,
                    proven,
                    since: self.clock.slow(),
                    read_at: now.mono,
                    broken: false,
                });
            }
        }
    }

    /// What the passing of time alone brings about.
    fn pass_time(&mut self, now: &Now) -> Option<Event> {
        let fast = self.clock.fast();
        if let Some(flight) = self.flight.take_if(|flight| fast >= flight.give_up)
            && let Some(event) = self.completed(now, &flight, Outcome::Unknown)
        {
            return Some(event);
        }
        match &mut self.phase {
            Phase::Held(held) if fast >= held.until && !held.ended => {
                let held = *held;
                let waited = held.failures > 0 || self.flight.is_some();
                Some(self.lose(now, &held, self.why_over(&held, waited)))
            }
            Phase::Held(held) if fast >= held.at_risk_at() && !held.at_risk_told && !held.ended => {
                held.at_risk_told = true;
                Some(Event::AtRisk { valid_for: held.until.since(fast) })
            }
            Phase::Acquiring(acquiring) if self.flight.is_none() => {
                let acquiring = *acquiring;
                self.give_up_if_over(now, &acquiring)
            }
            _ => None,
        }
    }

    /// Ends a try whose time is over. One whose outcome is unknown may take the time of another
    /// call: an answer is worth more than punctuality.
    fn give_up_if_over(&mut self, now: &Now, acquiring: &Acquiring) -> Option<Event> {
        let cause = acquiring.cause?;
        let patience = match cause {
            Cause::Failed(Failure::Unknown) => self.config.call_timeout().times(2),
            Cause::Busy(_) | Cause::Failed(_) => Span::ZERO,
        };
        if self.clock.fast() < acquiring.wait_until.after(patience) {
            return None;
        }
        let retry_after = self.seen.as_ref().and_then(|sight| self.changes_in(now, sight));
        self.undo(now, Goal::Quiet, None);
        Some(match cause {
            Cause::Busy(because) => Event::Busy { because, retry_after },
            Cause::Failed(failure) => Event::Failed { failure },
        })
    }
}

/// Ends of calls.
impl Lease {
    fn completed(&mut self, now: &Now, flight: &Flight, outcome: Outcome) -> Option<Event> {
        let not_applied = matches!(outcome, Outcome::Unavailable | Outcome::Denied);
        if not_applied && flight.first {
            self.ledger.strike(flight.attempt);
        }
        if let Outcome::Refused { current: Some(record) } | Outcome::Found { record } = outcome
            && record.holder == Holder::Us
        {
            self.ledger.landed(record.version, now.mono);
        }
        match self.phase {
            Phase::Acquiring(acquiring) => self.asked(now, acquiring, flight, outcome),
            Phase::Held(held) => self.renewed(now, held, flight, outcome),
            Phase::Undoing(undoing) => self.undone(now, undoing, flight, outcome),
            Phase::Idle => None,
        }
    }

    fn asked(
        &mut self,
        now: &Now,
        mut acquiring: Acquiring,
        flight: &Flight,
        outcome: Outcome,
    ) -> Option<Event> {
        let fast = self.clock.fast();
        match flight.write {
            Write::Acquire | Write::Takeover | Write::Read => {}
            // The end of what was under way when the acquire was asked for.
            Write::HandOver | Write::Release | Write::Renew => {
                if flight.write == Write::Release
                    && matches!(outcome, Outcome::Applied { .. } | Outcome::Refused { .. })
                {
                    self.ledger.strike_tied();
                }
                return None;
            }
        }
        match outcome {
            Outcome::Applied { fence } => match self.ledger.open(flight.attempt) {
                Some(attempt) if fast < attempt.until => Some(self.acquired(&attempt, fence)),
                // Too late to be a grant, or of an earlier acquire. It stands in the record, so the
                // next try finds it there, retired, and may replace it at once.
                _ => {
                    self.ledger.landed(flight.attempt, now.mono);
                    self.ledger.retire_all();
                    acquiring.claim = None;
                    self.try_again(now, acquiring, Failure::Unavailable, Span::ZERO)
                }
            },
            Outcome::Refused { current: None } => {
                acquiring.doubted = flight.first.then_some(flight.attempt);
                self.phase =
                    Phase::Acquiring(Acquiring { next: Next::Settle, next_at: fast, ..acquiring });
                None
            }
            Outcome::Refused { current: Some(record) } => {
                if flight.first && record.version != flight.attempt {
                    self.ledger.strike(flight.attempt);
                }
                self.judge(now, acquiring, record)
            }
            Outcome::Found { record } => {
                if let Some(doubted) = acquiring.doubted.take()
                    && record.version != doubted
                {
                    self.ledger.strike(doubted);
                }
                self.judge(now, acquiring, record)
            }
            Outcome::Denied => {
                self.undo(now, Goal::Quiet, None);
                Some(Event::Failed { failure: Failure::Denied })
            }
            Outcome::Unavailable => {
                let pause = self.backoff(now, acquiring.failures.saturating_add(1));
                self.try_again(now, acquiring, Failure::Unavailable, pause)
            }
            Outcome::Unknown => {
                // The first retry is immediate: mostly it is the reply that was lost.
                let pause = self.backoff(now, acquiring.failures);
                self.try_again(now, acquiring, Failure::Unknown, pause)
            }
        }
    }

    fn try_again(
        &mut self,
        now: &Now,
        acquiring: Acquiring,
        failure: Failure,
        pause: Span,
    ) -> Option<Event> {
        let acquiring = Acquiring {
            cause: Some(Cause::Failed(failure)),
            failures: acquiring.failures.saturating_add(1),
            next: match acquiring.next {
                Next::Settle => Next::Settle,
                Next::Poll | Next::Write => Next::Write,
            },
            next_at: self.clock.fast().after(pause),
            ..acquiring
        };
        self.phase = Phase::Acquiring(acquiring);
        self.give_up_if_over(now, &acquiring)
    }

    /// Decides what a record that was just seen means for an acquire.
    fn judge(&mut self, now: &Now, acquiring: Acquiring, record: Record) -> Option<Event> {
        let fast = self.clock.fast();
        // A claim ends with its first answer: a copy of a refused request may land later, and would
        // pass for a newer one if that had the same version.
        let acquiring = Acquiring { claim: None, ..acquiring };
        let write_now = Acquiring { next: Next::Write, next_at: fast, ..acquiring };
        if record.holder == Holder::Us
            && let Some(attempt) = self.ledger.open(record.version)
        {
            if fast < attempt.until {
                return Some(self.acquired(&attempt, record.fence));
            }
            self.ledger.retire_all();
            self.look_at(now, record);
            self.phase = Phase::Acquiring(write_now);
            return self.still_worth_it(now, Failure::Unavailable);
        }
        if record.holder == Holder::Nobody && record.term == Term::Over {
            self.seen = None;
            // A store that refuses although nobody is in the way is asked again, but not for ever.
            let pause = self.backoff(now, acquiring.failures);
            let cause = (acquiring.failures >= Self::MOST_EMPTY_REFUSALS)
                .then_some(Cause::Failed(Failure::Unavailable));
            self.phase = Phase::Acquiring(Acquiring {
                next_at: fast.after(pause),
                failures: acquiring.failures.saturating_add(1),
                cause: cause.or(acquiring.cause),
                ..write_now
            });
            return None;
        }
        let news = self.look_at(now, record);
        let sight = self.seen.as_ref()?;
        if self.may_take(now, sight) {
            self.phase = Phase::Acquiring(write_now);
            return None;
        }
        let because = match record.term {
            _ if record.holder == Holder::Nobody => BusyBecause::Resting,
            Term::WallOnly { .. } if self.config.max_clock_skew().is_none() => {
                BusyBecause::Unjudgeable
            }
            _ => BusyBecause::Held,
        };
        let changes_in = self.changes_in(now, sight);
        let poll = self.config.poll_interval();
        // Contenders that saw the same record must not come back in step.
        let (next, pause) = match changes_in {
            Some(span) if span <= poll => (Next::Write, span.plus(jitter(poll.part(8), now))),
            _ => (Next::Poll, poll.part(2).plus(jitter(poll.part(2), now))),
        };
        let acquiring = Acquiring {
            cause: Some(Cause::Busy(because)),
            failures: 0,
            next,
            next_at: fast.after(pause.max(Span::from_millis(1))),
            ..acquiring
        };
        self.phase = Phase::Acquiring(acquiring);
        self.give_up_if_over(now, &acquiring)
            .or_else(|| news.then_some(Event::Waiting { retry_after: changes_in }))
    }

    fn still_worth_it(&mut self, now: &Now, failure: Failure) -> Option<Event> {
        let Phase::Acquiring(acquiring) = self.phase else { return None };
        let acquiring = Acquiring { cause: Some(Cause::Failed(failure)), ..acquiring };
        self.phase = Phase::Acquiring(acquiring);
        self.give_up_if_over(now, &acquiring)
    }

    fn acquired(&mut self, attempt: &Attempt, fence: Option<Fence>) -> Event {
        self.ledger.granted(attempt.version);
        self.seen = None;
        let fast = self.clock.fast();
        let sent = attempt.until.before(self.config.first_terms().valid_for);
        let lasts = self.terms.ttl() == attempt.ttl;
        let held = Held {
            version: attempt.version,
            fence,
            ttl: attempt.ttl,
            copy_until: attempt.again.then_some(attempt.gone_at),
            acquired_at: sent,
            until: attempt.until,
            renew_at: if lasts { sent.after(self.terms.renew_interval) } else { fast },
            failures: 0,
            asked: !lasts,
            at_risk_told: false,
            settle: false,
            ended: false,
        };
        self.phase = Phase::Held(held);
        Event::Acquired { grant: held.grant(fast), takeover: attempt.takeover }
    }

    fn renewed(
        &mut self,
        now: &Now,
        held: Held,
        flight: &Flight,
        outcome: Outcome,
    ) -> Option<Event> {
        let fast = self.clock.fast();
        if held.ended {
            let reason = match outcome {
                Outcome::Found { record } | Outcome::Refused { current: Some(record) } => {
                    reason_of(&record)
                }
                _ => LostReason::Missing,
            };
            return Some(self.lose(now, &held, reason));
        }
        match outcome {
            // Whatever was applied, a grant whose time is over does not come back.
            _ if fast >= held.until => Some(self.lose(now, &held, self.why_over(&held, true))),
            Outcome::Applied { .. } if flight.write == Write::Renew => {
                self.ledger.strike_tied();
                let held = Held {
                    version: flight.attempt,
                    ttl: flight.ttl,
                    until: flight.until,
                    renew_at: self.renew_at(flight.sent, flight.ttl),
                    failures: 0,
                    at_risk_told: false,
                    settle: false,
                    asked: held.asked || self.terms.ttl() != flight.ttl,
                    ..held
                };
                self.phase = Phase::Held(held);
                Some(Event::Renewed { grant: held.grant(fast) })
            }
            Outcome::Refused { current: Some(record) } | Outcome::Found { record } => {
                self.checked(now, held, flight, &record)
            }
            Outcome::Refused { current: None } => {
                // An earlier attempt may stand there, or this one, if a client library sent it twice.
                self.phase = Phase::Held(if self.ledger.has_open() {
                    Held { settle: true, renew_at: fast, ..held }
                } else {
                    Held { ended: true, ..held }
                });
                None
            }
            Outcome::Unknown | Outcome::Unavailable | Outcome::Denied | Outcome::Applied { .. } => {
                let answered = outcome != Outcome::Unknown;
                let pause = self.backoff(now, held.failures.saturating_add(u8::from(answered)));
                self.retry_renewal(held, pause);
                None
            }
        }
    }

    /// A record was seen while the lease is held: is it still ours?
    fn checked(
        &mut self,
        now: &Now,
        held: Held,
        flight: &Flight,
        record: &Record,
    ) -> Option<Event> {
        let fast = self.clock.fast();
        let open = self.ledger.open(record.version);
        if record.holder != Holder::Us || record.version != held.version && open.is_none() {
            return Some(self.lose(now, &held, reason_of(record)));
        }
        if let Some(attempt) = open {
            // Applied after all, and counted from its own sending.
            self.ledger.stands(attempt.version);
            self.phase = Phase::Held(Held {
                version: attempt.version,
                ttl: attempt.ttl,
                until: held.until.max(attempt.until),
                renew_at: fast,
                settle: false,
                ..held
            });
        } else if flight.write == Write::Read && !held.settle {
            let pause = self.check_interval();
            self.phase = Phase::Held(Held { renew_at: fast.after(pause), failures: 0, ..held });
        } else {
            let pause = self.backoff(now, held.failures);
            self.retry_renewal(Held { settle: false, ..held }, pause);
        }
        None
    }

    /// Why a grant's time ran out.
    fn why_over(&self, held: &Held, waited: bool) -> LostReason {
        let unattended = held.until.since(held.renew_at).max(Span::from_millis(1));
        if self.gap >= unattended && held.failures == 0 {
            LostReason::Paused
        } else if waited {
            LostReason::Unreachable
        } else {
            LostReason::Expired
        }
    }

    /// Not so late that the deadline passes meanwhile.
    fn retry_renewal(&mut self, held: Held, pause: Span) {
        let fast = self.clock.fast();
        let in_time = held.until.since(fast).part(4).max(Span::from_millis(5));
        self.phase = Phase::Held(Held {
            failures: held.failures.saturating_add(1),
            renew_at: fast.after(pause.min(in_time)),
            ..held
        });
    }

    fn lose(&mut self, now: &Now, held: &Held, reason: LostReason) -> Event {
        match reason {
            // The record is known not to be ours.
            LostReason::Taken | LostReason::Missing => {
                self.ledger.strike_tied();
                self.undo(now, Goal::Quiet, None);
            }
            LostReason::Expired | LostReason::Paused | LostReason::Unreachable => {
                self.undo(now, Goal::Quiet, Some(held));
            }
        }
        Event::Lost { reason, fence: held.fence }
    }

    /// Retires everything, and goes on to free whatever of it stands, or may yet stand, in the
    /// record.
    fn undo(&mut self, now: &Now, goal: Goal, held: Option<&Held>) {
        let fast = self.clock.fast();
        let mut rest_until = fast;
        if let Some(held) = held {
            rest_until = held.acquired_at.after(self.config.settings().min_hold);
            let copy_until = held.copy_until.filter(|until| *until > now.mono);
            // A renewal under the same version may have landed without a word, just now.
            let stands_until = now.mono.after(held.ttl);
            self.ledger.enter(Attempt {
                version: held.version,
                until: held.until,
                gone_at: copy_until.map_or(stands_until, |until| until.max(stands_until)),
                ttl: held.ttl,
                loose: copy_until.is_some(),
                again: copy_until.is_some(),
                takeover: false,
                retired: true,
            });
        }
        self.ledger.retire_all();
        self.ledger.prune(now.mono);
        let offer = Version::NONE;
        self.phase = Phase::Undoing(Undoing {
            goal,
            next_at: fast,
            failures: 0,
            sweeps: 0,
            rest_until,
            offer,
        });
    }

    fn undone(
        &mut self,
        now: &Now,
        undoing: Undoing,
        flight: &Flight,
        outcome: Outcome,
    ) -> Option<Event> {
        let fast = self.clock.fast();
        match (flight.write, outcome) {
            (Write::HandOver, Outcome::Applied { .. }) => {
                self.ledger.strike_tied();
                self.told(undoing, Event::HandedOver)
            }
            (Write::HandOver, Outcome::Refused { current: Some(record) })
                if record.version == undoing.offer =>
            {
                self.ledger.strike_tied();
                self.told(undoing, Event::HandedOver)
            }
            (Write::HandOver, Outcome::Refused { current: Some(record) })
                if self.ledger.get(record.version).is_none() =>
            {
                self.ledger.strike_tied();
                // With our name and a version that is over for everybody: it came too late.
                let reason = match record.holder {
                    Holder::Us => LostReason::Expired,
                    _ => reason_of(&record),
                };
                self.told(undoing, Event::Lost { reason, fence: None })
            }
            (Write::HandOver | Write::Read, Outcome::Found { record }) => {
                if record.holder == Holder::Us && self.ledger.get(record.version).is_some() {
                    self.ledger.prefer(record.version);
                    self.phase = Phase::Undoing(Undoing { next_at: fast, failures: 0, ..undoing });
                    return None;
                }
                self.ledger.strike_tied();
                self.told(
                    undoing,
                    match undoing.goal {
                        Goal::HandOver if record.version == undoing.offer => Event::HandedOver,
                        Goal::HandOver => Event::Lost { reason: reason_of(&record), fence: None },
                        Goal::Quiet | Goal::Release => Event::Released,
                    },
                )
            }
            (Write::Release, Outcome::Applied { .. }) => {
                // Known if only one version was named: its record was there, and is freed.
                self.ledger.freed(flight.attempt);
                self.ledger.strike_tied();
                self.sweep(undoing);
                self.told(undoing, Event::Released)
            }
            (Write::Release, Outcome::Refused { current }) => {
                if let Some(record) = current
                    && record.holder == Holder::Us
                    && self.ledger.is_retired(record.version)
                {
                    let pause = self.backoff(now, undoing.failures.saturating_add(1));
                    self.ledger.prefer(record.version);
                    self.phase = Phase::Undoing(Undoing {
                        next_at: fast.after(if self.names_one() { Span::ZERO } else { pause }),
                        failures: undoing.failures.saturating_add(1),
                        ..undoing
                    });
                    return None;
                }
                if self.names_one() && current.is_none() {
                    // Only that version was compared.
                    self.ledger.strike_if_tied(flight.attempt);
                    self.ledger.rotate();
                    if self.ledger.has_tied() {
                        self.phase = Phase::Undoing(Undoing { next_at: fast, ..undoing });
                        return None;
                    }
                } else {
                    self.ledger.strike_tied();
                }
                self.sweep(undoing);
                self.told(undoing, Event::Released)
            }
            // The end of a write that was under way when it was given up.
            (Write::Acquire | Write::Takeover | Write::Renew, Outcome::Applied { .. }) => {
                self.ledger.landed(flight.attempt, now.mono);
                self.ledger.prefer(flight.attempt);
                self.phase = Phase::Undoing(Undoing { next_at: fast, ..undoing });
                None
            }
            (Write::Acquire | Write::Takeover, Outcome::Refused { current }) => {
                if flight.first && current.is_some_and(|r| r.version != flight.attempt) {
                    self.ledger.strike(flight.attempt);
                }
                None
            }
            (Write::HandOver, Outcome::Refused { current: None }) => {
                self.phase =
                    Phase::Undoing(Undoing { next_at: fast, failures: u8::MAX, ..undoing });
                None
            }
            _ => {
                let answered = outcome != Outcome::Unknown;
                let pause = self.backoff(now, undoing.failures.saturating_add(u8::from(answered)));
                self.phase = Phase::Undoing(Undoing {
                    next_at: fast.after(pause),
                    failures: undoing.failures.saturating_add(1).min(u8::MAX - 1),
                    ..undoing
                });
                None
            }
        }
    }

    /// Nothing of ours stands in the record; what may yet land is looked for, ever less often.
    fn sweep(&mut self, undoing: Undoing) {
        let poll = self.config.poll_interval();
        let rarest = poll.max(self.config.first_terms().ttl.part(10));
        let pause = poll.times(1_u64 << undoing.sweeps.min(20)).min(rarest);
        let next_at = self.clock.fast().after(pause);
        let sweeps = undoing.sweeps.saturating_add(1);
        self.phase = Phase::Undoing(Undoing { next_at, sweeps, ..undoing });
    }

    /// Tells it to whoever waits for it, once.
    fn told(&mut self, undoing: Undoing, event: Event) -> Option<Event> {
        if let Phase::Undoing(undoing) = &mut self.phase {
            undoing.goal = Goal::Quiet;
        }
        (undoing.goal != Goal::Quiet).then_some(event)
    }

    /// Undoing ends when nothing is left that could stand in the record.
    fn finish_undoing(&mut self, event: Option<Event>) -> Option<Event> {
        let Phase::Undoing(undoing) = self.phase else { return event };
        if self.flight.is_some() || !self.ledger.is_empty() {
            return event;
        }
        match (event, undoing.goal) {
            (event, Goal::Quiet) => {
                self.phase = Phase::Idle;
                event
            }
            (None, Goal::HandOver | Goal::Release) => {
                self.phase = Phase::Idle;
                Some(Event::Unconfirmed)
            }
            (event, Goal::HandOver | Goal::Release) => event,
        }
    }

    /// How often a store may refuse an acquire and show a free record before it counts as
    /// unavailable.
    const MOST_EMPTY_REFUSALS: u8 = 4;
}

/// Calls.
impl Lease {
    fn next_call(&mut self, now: &Now) -> Option<Call> {
        if self.flight.is_some() {
            return None;
        }
        let fast = self.clock.fast();
        match self.phase {
            Phase::Acquiring(acquiring) if fast >= acquiring.next_at => {
                let reads = match acquiring.next {
                    Next::Settle => Some(true),
                    Next::Poll if self.config.settings().polling == Polling::Read => Some(false),
                    Next::Poll | Next::Write => None,
                };
                match reads {
                    Some(consistent) => Some(self.look(now, consistent)),
                    None => Some(self.write_acquire(now, acquiring)),
                }
            }
            Phase::Held(held) if held.ended => Some(self.look(now, true)),
            Phase::Held(held) if fast < held.until && (held.asked || fast >= held.renew_at) => {
                let only_check = held.ttl.is_forever() && self.terms.ttl().is_forever();
                // A failed renewal is not repeated at once just because it was asked for.
                if held.failures > 0 && fast < held.renew_at {
                    None
                } else if held.settle || only_check && !held.asked {
                    Some(self.look(now, true))
                } else {
                    Some(self.write_renew(now, held))
                }
            }
            Phase::Undoing(undoing) if fast >= undoing.next_at && !self.ledger.is_empty() => {
                Some(self.write_undo(now, &undoing))
            }
            _ => None,
        }
    }

    fn write_acquire(&mut self, now: &Now, acquiring: Acquiring) -> Call {
        let terms = self.config.first_terms();
        let attempt = match (self.config.settings().versions, acquiring.claim) {
            (Versions::PerClaim, Some(claim)) => claim,
            _ => fresh_version(now),
        };
        self.phase = Phase::Acquiring(Acquiring { claim: Some(attempt), ..acquiring });
        let takes = self.seen.filter(|sight| self.may_take(now, sight));
        let (write, kind) = match takes {
            Some(sight) => {
                let seen = sight.record.identity;
                (Write::Takeover, CallKind::Takeover { attempt, terms, seen })
            }
            None => (Write::Acquire, CallKind::Acquire { attempt, terms }),
        };
        // Replacing what was ours or nobody's is no takeover to speak of.
        let takeover = takes.is_some_and(|sight| sight.record.holder == Holder::Other);
        self.send(now, write, kind, takeover)
    }

    fn write_renew(&mut self, now: &Now, held: Held) -> Call {
        let mut terms = self.terms;
        let mut attempt = match self.config.settings().versions {
            // A write that lands late must not shorten what a later one gave, so only writes of one
            // ttl share a version.
            Versions::PerClaim if terms.ttl() == held.ttl => held.version,
            _ => fresh_version(now),
        };
        if let Some(newest) = self.ledger.full_with() {
            // No room for another attempt: the newest is sent again, and counts from its first
            // sending.
            attempt = newest.version;
            terms.ttl = newest.ttl;
        }
        let mut ours = OurVersions::one(held.version);
        ours.push(attempt);
        self.ledger.add_versions(&mut ours, false);
        let until = self.clock.fast().after(terms.valid_for);
        self.phase = Phase::Held(Held {
            asked: false,
            // If it shortens the lease and its reply is lost, it may have been applied.
            until: if terms.ttl() < held.ttl { held.until.min(until) } else { held.until },
            ..held
        });
        let kind = CallKind::Renew { attempt, terms, ours };
        self.send(now, Write::Renew, kind, false)
    }

    fn write_undo(&mut self, now: &Now, undoing: &Undoing) -> Call {
        if undoing.goal == Goal::HandOver {
            if undoing.failures == u8::MAX {
                return self.look(now, true);
            }
            let offer =
                if undoing.offer == Version::NONE { fresh_version(now) } else { undoing.offer };
            self.phase = Phase::Undoing(Undoing { offer, ..*undoing });
            let kind = CallKind::HandOver {
                attempt: offer,
                terms: self.config.first_terms(),
                ours: self.ledger.versions(true),
            };
            return self.send(now, Write::HandOver, kind, false);
        }
        let ours = if self.names_one() {
            self.ledger.first().map_or_else(OurVersions::empty, OurVersions::one)
        } else {
            self.ledger.versions(true)
        };
        let rest = undoing.rest_until.since(self.clock.fast());
        self.send(now, Write::Release, CallKind::Release { ours, rest }, false)
    }

    fn look(&mut self, now: &Now, consistent: bool) -> Call {
        self.send(now, Write::Read, CallKind::Read { consistent }, false)
    }

    /// Puts a call in flight, after its attempt was entered in the ledger.
    fn send(&mut self, now: &Now, write: Write, kind: CallKind, takeover: bool) -> Call {
        let fast = self.clock.fast();
        self.calls = self.calls.wrapping_add(1);
        let id = CallId(self.calls);
        let mut flight = Flight {
            id,
            write,
            attempt: Version::NONE,
            sent: fast,
            until: fast,
            ttl: Span::ZERO,
            give_up: fast.after(self.config.call_timeout()),
            first: false,
        };
        match kind {
            CallKind::Acquire { attempt, terms }
            | CallKind::Takeover { attempt, terms, .. }
            | CallKind::Renew { attempt, terms, .. }
            | CallKind::HandOver { attempt, terms, .. } => {
                let until = fast.after(terms.valid_for);
                flight = Flight { attempt, until, ttl: terms.ttl, ..flight };
                self.enter(now, &mut flight, takeover);
            }
            CallKind::Release { ours, .. } => {
                // Names the attempt if it is the only one.
                if let [only] = ours.as_slice() {
                    flight.attempt = *only;
                }
            }
            CallKind::Read { .. } => {}
        }
        if let Phase::Held(held) = self.phase
            && !held.ended
        {
            flight.give_up = flight.give_up.min(held.until);
        }
        self.flight = Some(flight);
        Call { id, kind, wall: now.wall, give_up_at: now.mono.after(flight.give_up.since(fast)) }
    }

    fn enter(&mut self, now: &Now, flight: &mut Flight, takeover: bool) {
        if let Phase::Held(held) = self.phase
            && held.version == flight.attempt
        {
            // Stands in the record already: nothing to find out about it.
            return;
        }
        flight.first = self.ledger.enter(Attempt {
            version: flight.attempt,
            until: flight.until,
            // Looked for until then: on its way for one ttl, and standing for another.
            gone_at: now.mono.after(flight.ttl.times(2)),
            ttl: flight.ttl,
            loose: matches!(flight.write, Write::Acquire | Write::Takeover),
            again: false,
            takeover,
            retired: flight.write == Write::HandOver,
        });
        if let Some(entered) = self.ledger.get(flight.attempt) {
            // One version sent several times: any of the sendings may be the one that is applied.
            flight.until = flight.until.min(entered.until);
        }
    }

    /// The earliest instant at which something is due, if nothing else happens before.
    fn wake_at(&self, now: &Now) -> Option<Instant> {
        let fast = self.clock.fast();
        let give_up = self.flight.map(|flight| flight.give_up);
        let due = match &self.phase {
            Phase::Idle => return None,
            Phase::Acquiring(acquiring) if self.flight.is_none() => {
                Some(acquiring.cause.map_or(acquiring.next_at, |cause| match cause {
                    Cause::Failed(Failure::Unknown) => acquiring.next_at,
                    Cause::Busy(_) | Cause::Failed(_) => {
                        acquiring.next_at.min(acquiring.wait_until)
                    }
                }))
            }
            Phase::Acquiring(_) => None,
            Phase::Held(held) if held.ended => None,
            Phase::Held(held) => {
                let risk = if held.at_risk_told { held.until } else { held.at_risk_at() };
                let end = held.until.min(risk);
                Some(if self.flight.is_some() { end } else { end.min(held.renew_at) })
            }
            Phase::Undoing(undoing) if self.flight.is_none() => Some(undoing.next_at),
            Phase::Undoing(_) => None,
        };
        let at = match (give_up, due) {
            (Some(give_up), Some(due)) => Some(give_up.min(due)),
            (at, None) | (None, at) => at,
        };
        let at = at.filter(|at| *at != Fast::NEVER).map(|at| now.mono.after(at.since(fast)));
        let gone_at = match self.phase {
            Phase::Undoing(_) => self.ledger.next_gone_at(),
            Phase::Idle | Phase::Acquiring(_) | Phase::Held(_) => None,
        };
        let gone_at = gone_at.map(|at| at.max(now.mono));
        match (at, gone_at) {
            (Some(at), Some(gone_at)) => Some(at.min(gone_at)),
            (at, None) | (None, at) => at,
        }
    }
}

/// Evidence.
impl Lease {
    /// Notes a record that is in the way. True if it was not there before.
    fn look_at(&mut self, now: &Now, record: Record) -> bool {
        match &mut self.seen {
            Some(sight) if sight.record.identity == record.identity => {
                sight.record = record;
                sight.read_at = now.mono;
                false
            }
            seen => {
                let since = self.clock.slow();
                let proven = Span::ZERO;
                *seen = Some(Sight { record, proven, since, read_at: now.mono, broken: false });
                true
            }
        }
    }

    fn stood_for(&self, sight: &Sight) -> Span {
        sight.proven.plus(self.clock.slow().since(sight.since))
    }

    /// Whether this record may be replaced now.
    fn may_take(&self, now: &Now, sight: &Sight) -> bool {
        match sight.record.holder {
            _ if sight.broken => true,
            Holder::OfferedToUs => true,
            Holder::Us if self.ledger.is_retired(sight.record.version) => true,
            Holder::Us | Holder::Other | Holder::Nobody => self.proven_over(now, sight),
        }
    }

    fn proven_over(&self, now: &Now, sight: &Sight) -> bool {
        let observed = |ttl: Span| {
            !ttl.is_forever() && self.stood_for(sight) > ttl.plus(self.config.margin(ttl))
        };
        let passed = |expires_at: Wall, theirs: Span| {
            let (Some(ours), Some(wall)) = (self.config.max_clock_skew(), now.wall) else {
                return false;
            };
            wall > expires_at.after(ours.max(theirs))
        };
        match sight.record.term {
            Term::Over | Term::Remaining { .. } => false,
            Term::Observed { ttl } => observed(ttl),
            Term::Resting { rest, .. } => rest == Span::ZERO || observed(rest),
            Term::Bounded { ttl, expires_at, max_clock_skew } => {
                observed(ttl) || !ttl.is_forever() && passed(expires_at, max_clock_skew)
            }
            Term::WallOnly { expires_at } => passed(expires_at, Span::ZERO),
        }
    }

    /// How long until a record can be over, if it stays as it is; `None` if that cannot be known.
    fn changes_in(&self, now: &Now, sight: &Sight) -> Option<Span> {
        let tick = Span::from_micros(1);
        let observed = |ttl: Span| {
            let wait = ttl.plus(self.config.margin(ttl)).plus(tick);
            (!ttl.is_forever()).then(|| wait.minus(self.stood_for(sight)))
        };
        let by_wall = |expires_at: Wall, theirs: Span| {
            let skew = self.config.max_clock_skew()?.max(theirs).plus(tick);
            Some(expires_at.after(skew).since(now.wall?))
        };
        match sight.record.term {
            Term::Over => Some(Span::ZERO),
            Term::Observed { ttl } => observed(ttl),
            Term::Bounded { ttl, expires_at, max_clock_skew } => {
                match (observed(ttl), by_wall(expires_at, max_clock_skew)) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, None) => a,
                    (None, _) => None,
                }
            }
            Term::WallOnly { expires_at } => by_wall(expires_at, Span::ZERO),
            Term::Resting { rest, not_before } => {
                let waited = observed(rest)?;
                let by_wall = not_before.zip(now.wall).map(|(until, now)| until.since(now));
                Some(by_wall.map_or(waited, |span| span.min(waited)))
            }
            Term::Remaining { left } => Some(left?.minus(now.mono.since(sight.read_at))),
        }
    }

    /// The pause before try number `failures` + 1: none, then doubling, and never in step with
    /// another contender's.
    fn backoff(&self, now: &Now, failures: u8) -> Span {
        let Some(doublings) = failures.checked_sub(1) else { return Span::ZERO };
        let longest = self.config.poll_interval().max(Span::from_millis(20));
        let pause = Span::from_millis(10).times(1_u64 << doublings.min(20)).min(longest);
        pause.part(2).plus(jitter(pause.part(2), now))
    }

    fn renew_at(&self, sent: Fast, ttl: Span) -> Fast {
        if ttl.is_forever() {
            return self.clock.fast().after(self.check_interval());
        }
        sent.after(self.terms.renew_interval)
    }

    /// The pace at which a lock, which nothing renews, is looked at.
    fn check_interval(&self) -> Span {
        self.config.settings().poll_interval.unwrap_or(Span::from_millis(1_000))
    }

    /// Whether the store compares a single value, so that a condition cannot list several.
    fn names_one(&self) -> bool {
        self.config.settings().versions == Versions::PerClaim
    }
}

impl Held {
    fn is_valid(&self, fast: Fast) -> bool {
        !self.ended && fast < self.until
    }

    fn grant(&self, fast: Fast) -> Grant {
        let valid_for =
            if self.until == Fast::NEVER { Span::FOREVER } else { self.until.since(fast) };
        Grant { fence: self.fence, valid_for }
    }

    /// When a quarter of the ttl is left and no renewal came through.
    fn at_risk_at(&self) -> Fast {
        if self.until == Fast::NEVER { self.until } else { self.until.before(self.ttl.part(4)) }
    }
}

fn reason_of(record: &Record) -> LostReason {
    match record.holder {
        Holder::Nobody => LostReason::Missing,
        Holder::Us | Holder::OfferedToUs | Holder::Other => LostReason::Taken,
    }
}

fn fresh_version(now: &Now) -> Version {
    // Zero means "no version"; as good as never drawn.
    Version::from_bits(now.entropy.max(1))
}

/// A random part of `most`.
fn jitter(most: Span, now: &Now) -> Span {
    let bits = now.entropy as u16;
    most.times(u64::from(bits)).part(1 << 16)
}
