//! The machine: every transition from one `Phase` of a lease to another is in this file. What it
//! knows of others is judged in `evidence`, and what it asks of the store is put in `calls`.
//!
//! Three rules explain most of it.
//!
//! * **A grant rests on an attempt that is known to be applied, and counts from its sending.** So
//!   every attempt is entered in the `Ledger` before it is sent. A record that shows an open
//!   version of ours proves that attempt; nothing else proves one.
//! * **What has ended is retired.** A retired version is never adopted; where it stands in the
//!   record it is released, or replaced if we want the name again.
//! * **One call is in flight at most.** What is wished for meanwhile waits for its end.

mod calls;
mod evidence;
mod phase;
#[cfg(feature = "shape")]
mod shape;

use self::phase::{Acquiring, Cause, Flight, Goal, Held, Next, Phase, Undoing, Write};
use crate::config::{Config, Terms};
use crate::io::{
    BusyBecause, CallId, Event, Failure, Grant, Input, LostReason, Outcome, Output, Wait,
};
use crate::ledger::{Attempt, Ledger};
use crate::record::{Fence, Holder, Observation, Record, Sight, Term, Version};
use crate::time::{Clock, Fast, Now, Span};

#[cfg(feature = "shape")]
pub use self::shape::Shape;

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
                self.seen = self.seen.map(|sight| Sight { broken: false, ..sight });
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
            if self.ledger.is_retired(record.version) {
                self.ledger.prefer(record.version);
            }
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
            Write::HandOver | Write::Renew => return None,
            Write::Release => {
                self.strike_by_release(flight, &outcome);
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
            return Some(match outcome {
                Outcome::Found { record } | Outcome::Refused { current: Some(record) } => {
                    self.lose_to(now, &held, &record)
                }
                _ => self.lose_to(now, &held, &Record::FREE),
            });
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
                    // One that was sent again counts from its first sending, and may have little left.
                    renew_at: self
                        .renew_at(flight.sent, flight.ttl)
                        .min(fast.after(flight.until.since(fast).part(2))),
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
            return Some(self.lose_to(now, &held, record));
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

    /// Its time is over; the record may still be ours.
    fn lose(&mut self, now: &Now, held: &Held, reason: LostReason) -> Event {
        self.undo(now, Goal::Quiet, Some(held));
        Event::Lost { reason, fence: held.fence }
    }

    /// Another record stands there: a stranger's, or what an acquire of ours left that came late.
    fn lose_to(&mut self, now: &Now, held: &Held, record: &Record) -> Event {
        self.strike_by_record(record);
        self.undo(now, Goal::Quiet, None);
        Event::Lost { reason: reason_of(record), fence: held.fence }
    }

    /// Retires everything, and goes on to free whatever of it stands, or may yet stand, in the
    /// record.
    fn undo(&mut self, now: &Now, goal: Goal, held: Option<&Held>) {
        let fast = self.clock.fast();
        let mut rest_until = fast;
        if let Some(held) = held {
            rest_until = held.acquired_at.after(self.config.settings().min_hold);
            // A copy of the last renewal may land for a ttl from here, and stand for another.
            let stands_until = now.mono.after(held.ttl.times(2));
            self.ledger.enter(Attempt {
                version: held.version,
                until: held.until,
                gone_at: stands_until,
                ttl: held.ttl,
                loose: false,
                again: false,
                takeover: false,
                retired: true,
            });
            // Where a condition names only one, it is this that must be known to be gone.
            self.ledger.prefer(held.version);
        }
        self.ledger.give_up(now.mono);
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
                    // It is named next. That it stands and is still refused may be a matter of turns.
                    let next_at = fast.after(self.backoff(now, undoing.sweeps));
                    let sweeps = undoing.sweeps.saturating_add(1);
                    self.phase =
                        Phase::Undoing(Undoing { next_at, failures: 0, sweeps, ..undoing });
                    return None;
                }
                self.ledger.strike_tied();
                self.told(
                    undoing,
                    match undoing.goal {
                        Goal::HandOver if record.version == undoing.offer => Event::HandedOver,
                        Goal::HandOver => Event::Lost { reason: reason_of(&record), fence: None },
                        Goal::Quiet | Goal::Release => released_from(&record),
                    },
                )
            }
            (Write::Release, Outcome::Applied { .. } | Outcome::Refused { .. }) => {
                if self.strike_by_release(flight, &outcome) {
                    let pause = self.backoff(now, undoing.failures.saturating_add(1));
                    self.phase = Phase::Undoing(Undoing {
                        next_at: fast.after(if self.names_one() { Span::ZERO } else { pause }),
                        failures: undoing.failures.saturating_add(1),
                        ..undoing
                    });
                    return None;
                }
                if self.ledger.has_tied() {
                    // In the order of their sending: what an earlier one may have become is asked for
                    // after it.
                    if self.ledger.first() == Some(flight.attempt) {
                        self.ledger.rotate();
                    }
                    self.phase = Phase::Undoing(Undoing { next_at: fast, ..undoing });
                    return None;
                }
                self.sweep(undoing);
                let shown = match outcome {
                    Outcome::Refused { current: Some(record) } => record,
                    _ => Record::FREE,
                };
                self.told(undoing, released_from(&shown))
            }
            // The end of a write that was under way when it was given up.
            (Write::Acquire | Write::Takeover | Write::Renew, Outcome::Applied { .. }) => {
                if self.ledger.get(flight.attempt).is_none() {
                    // It came later than it was looked for, but it is known to stand there.
                    self.ledger.enter(Attempt {
                        version: flight.attempt,
                        until: flight.until,
                        gone_at: now.mono.after(flight.ttl),
                        ttl: flight.ttl,
                        loose: false,
                        again: false,
                        takeover: false,
                        retired: true,
                    });
                }
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

    /// Strikes what the end of a release proves to be gone. True if it shows that one of ours stands in the
    /// record.
    fn strike_by_release(&mut self, flight: &Flight, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Applied { .. } => {
                // Known if only one version was named: its record was there, and is freed.
                self.ledger.freed(flight.attempt);
                self.ledger.strike_tied();
            }
            Outcome::Refused { current: Some(record) } => return self.strike_by_record(record),
            // Only that version was compared.
            Outcome::Refused { current: None } if self.names_one() => {
                self.ledger.strike_if_tied(flight.attempt);
            }
            Outcome::Refused { current: None } => self.ledger.strike_tied(),
            Outcome::Found { .. } | Outcome::Unknown | Outcome::Unavailable | Outcome::Denied => {}
        }
        false
    }

    /// Attempts that name a record of ours cannot land any more, unless this record is one: then true.
    fn strike_by_record(&mut self, record: &Record) -> bool {
        let ours = record.holder == Holder::Us && self.ledger.get(record.version).is_some();
        if !ours {
            self.ledger.strike_tied();
        }
        ours
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

fn reason_of(record: &Record) -> LostReason {
    match record.holder {
        Holder::Nobody => LostReason::Missing,
        Holder::Us | Holder::OfferedToUs | Holder::Other => LostReason::Taken,
    }
}

/// What is left after a release. A record with our name and a version that is over for everybody came too
/// late to be freed: it ends by itself, if it did not long ago.
fn released_from(record: &Record) -> Event {
    match record.holder {
        Holder::Us => Event::Unconfirmed,
        Holder::Nobody | Holder::OfferedToUs | Holder::Other => Event::Released,
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
