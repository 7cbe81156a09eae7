//! How each action changes the world.

use tenure_core::io::{Event, Input, Outcome, Output};
use tenure_core::lease::State;
use tenure_core::time::{Now, Span, Wall};

use super::{BY_WALL, Contender, EPOCH, Happened, Message, World, remember};
use crate::action::{Action, Number, TurnedAway};
use crate::guarded::Begun;
use crate::promise::{Broken, Promise, broken};

impl World {
    /// Lets something happen, and checks every promise.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn apply(&mut self, action: &Action) -> Result<Happened, Broken> {
        let mut happened = Happened::default();
        match *action {
            Action::Pass { by, fast } => {
                self.pass(by, fast);
                self.check()?;
                return Ok(happened);
            }
            Action::Input(who, input) => self.input(who, input, &mut happened)?,
            Action::HandOver(from, to) => {
                if let Some(to) = self.contenders.get(to).map(|c| c.holder)
                    && let Some(from) = self.contenders.get_mut(from)
                {
                    from.successor = Some(to);
                }
                self.input(from, Input::HandOver, &mut happened)?;
            }
            Action::Share(from, to) => {
                if from < self.contenders.len() {
                    let now = self.clocks(from);
                    if let Some(observation) = self.contenders[from].lease.observation(now) {
                        self.input(to, Input::Observe { observation }, &mut happened)?;
                    }
                }
            }
            Action::Land(number) => {
                if let Some(index) = self.find(number) {
                    self.land(index)?;
                }
            }
            Action::Answer(number) | Action::AnswerTwice(number) => {
                if let Some(index) = self.find(number)
                    && let Some(outcome) = self.network[index].reply
                    && let Some(who) = self.position(number.life)
                    && !self.contenders[who].suspended
                {
                    if matches!(action, Action::Answer(_)) {
                        self.network.swap_remove(index);
                    }
                    self.complete(who, number, outcome, &mut happened)?;
                }
            }
            Action::Lose(number) => {
                if let Some(index) = self.find(number) {
                    self.network.swap_remove(index);
                }
            }
            Action::Break(number) => {
                if let Some(index) = self.find(number)
                    && let Some(who) = self.position(number.life)
                    && !self.contenders[who].suspended
                {
                    if self.network[index].reply.is_some() {
                        self.network.swap_remove(index);
                    } else {
                        self.network[index].ghost = true;
                    }
                    self.complete(who, number, Outcome::Unknown, &mut happened)?;
                }
            }
            Action::TurnAway(number, how) => self.turn_away(number, how, &mut happened)?,
            Action::Duplicate(number) => {
                if let Some(index) = self.find(number) {
                    let copies = self.network.iter().map(|m| m.number.copy).max().unwrap_or(0);
                    self.network[index].copied = true;
                    let copy = Message {
                        number: Number { copy: copies + 1, ..number },
                        ghost: true,
                        reply: None,
                        ..self.network[index]
                    };
                    self.network.push(copy);
                    happened.sent = Some(copy.number);
                }
            }
            Action::Resend(number) => {
                if let Some(index) = self.find(number) {
                    self.network[index].reply = None;
                    self.network[index].copied = true;
                }
            }
            Action::Crash(who, ref born) => {
                // Copies stay: what they send names their ancestors' versions.
                if self.contenders.get(who).is_some_and(|c| c.lineage.len() == 1) {
                    self.contenders[who] = self.begin(**born);
                }
            }
            Action::Die(who) => {
                if let Some(c) = self.contenders.get_mut(who) {
                    c.dead = true;
                    c.wake_at = None;
                }
            }
            Action::Clone(who) => self.copy_machine(who),
            Action::StepWall(who, by) => {
                let free = |c: &&mut Contender| !c.born.disciplined && !c.suspended;
                if let Some(c) = self.contenders.get_mut(who).filter(free) {
                    c.wall_error = c.wall_error.saturating_add(by);
                }
            }
            Action::Suspend(who) => {
                if let Some(c) = self.contenders.get_mut(who) {
                    c.suspended = true;
                }
            }
            Action::Resume(who) => {
                if let Some(c) = self.contenders.get_mut(who) {
                    c.suspended = false;
                }
            }
            Action::Replicate => self.replica = self.row,
            Action::Failover => {
                // Takes a while, in which the clock that seeds fences goes on.
                self.pass(1_000, 0);
                self.row = self.replica;
                self.landed = None;
            }
            Action::TakeFrom(who) => {
                if let Some(c) = self.contenders.get(who) {
                    let seen = self.row.record(c.holder, self.store_now()).identity;
                    self.input(who, Input::Break { seen }, &mut happened)?;
                }
            }
            Action::Delete => {
                self.row.clear();
                self.landed = None;
            }
            Action::HoldByWall => self.hold_by_wall(),
            Action::LeaveByWall => {
                self.row.leave_by_wall(BY_WALL);
                self.by_wall_until = None;
            }
            Action::Begin(who) => self.begin_addition(who)?,
            Action::Arrive => self.guarded.arrive(),
        }
        self.check()?;
        Ok(happened)
    }

    fn find(&self, number: Number) -> Option<usize> {
        self.network.iter().position(|m| m.number == number)
    }

    fn position(&self, life: u32) -> Option<usize> {
        self.contenders.iter().position(|c| c.life == life && !c.dead)
    }

    fn pass(&mut self, by: u64, fast: u8) {
        self.time += by;
        self.store_time += by * self.rules.store_rate;
        for (index, c) in self.contenders.iter_mut().enumerate() {
            let rate = if fast & (1 << index) == 0 { c.born.rates.0 } else { c.born.rates.1 };
            c.wall += by * rate;
            if !c.suspended {
                c.mono += by * rate;
            }
        }
    }

    fn input(&mut self, who: usize, input: Input, happened: &mut Happened) -> Result<(), Broken> {
        if self.contenders.get(who).is_none_or(|c| c.dead || c.suspended) {
            return Ok(());
        }
        let now = self.now(who);
        let output = self.contenders[who].lease.handle(now, input);
        if self.verbose {
            println!("{:>12} {} {input:?}", self.time, self.contenders[who].life);
            println!("             -> {output:?}");
        }
        self.follow(who, now, &output, happened)
    }

    fn complete(
        &mut self,
        who: usize,
        number: Number,
        outcome: Outcome,
        happened: &mut Happened,
    ) -> Result<(), Broken> {
        let id = tenure_core::io::CallId(number.call);
        happened.healed = matches!(outcome, Outcome::Refused { .. } | Outcome::Found { .. });
        self.input(who, Input::Completed { id, outcome }, happened)?;
        let turned_away =
            matches!(outcome, Outcome::Unknown | Outcome::Unavailable | Outcome::Denied);
        if turned_away && matches!(happened.told, Some(Event::Acquired { .. })) {
            return Err(broken(Promise::FailsClosed, "a request that failed gave a grant"));
        }
        Ok(())
    }

    fn turn_away(
        &mut self,
        number: Number,
        how: TurnedAway,
        happened: &mut Happened,
    ) -> Result<(), Broken> {
        // Only of what never arrives may be said that it was not applied.
        if let Some(index) = self.find(number)
            && self.network[index].reply.is_none()
            && !self.network[index].copied
            && let Some(who) = self.position(number.life)
            && !self.contenders[who].suspended
        {
            self.network.swap_remove(index);
            let outcome = match how {
                TurnedAway::Unavailable => Outcome::Unavailable,
                TurnedAway::Denied => Outcome::Denied,
            };
            self.complete(who, number, outcome, happened)?;
        }
        Ok(())
    }

    fn follow(
        &mut self,
        who: usize,
        now: Now,
        output: &Output,
        happened: &mut Happened,
    ) -> Result<(), Broken> {
        if let Some(event) = output.event {
            happened.told = Some(event);
            self.hear(who, event)?;
        }
        let timeout = self.contenders[who].born.config.call_timeout();
        if let Some(call) = output.call {
            let wait = call.give_up_at.since(now.mono);
            if call.give_up_at < now.mono || wait > timeout {
                return Err(broken(Promise::Bounded, "a call without a bound in time"));
            }
            let c = &self.contenders[who];
            let number = Number { life: c.life, call: call.id.0, copy: 0 };
            self.network.push(Message {
                number,
                call,
                reply: None,
                ghost: false,
                copied: false,
                holder: c.holder,
                successor: c.successor,
                sent: self.time,
            });
            happened.sent = Some(number);
        }
        if output.wake_at.is_none() {
            let idle = self.contenders[who].lease.awaited().is_none()
                && match self.contenders[who].lease.state() {
                    State::Acquiring | State::Releasing => false,
                    // Nothing is due for a lock, or for a grant that ended and was told.
                    State::Idle | State::Held | _ => true,
                };
            if !idle {
                return Err(broken(
                    Promise::Bounded,
                    "something is under way and nothing wakes it",
                ));
            }
        }
        self.contenders[who].wake_at = output.wake_at;
        Ok(())
    }

    fn copy_machine(&mut self, who: usize) {
        let Some(original) = self.contenders.get(who) else { return };
        // One that is still acquiring would make two grants of one attempt, which only its host can see.
        let steady = matches!(original.lease.state(), State::Idle | State::Held);
        if original.dead || original.suspended || !steady || self.contenders.len() >= 4 {
            return;
        }
        self.lives += 1;
        let mut copy = original.clone();
        copy.life = self.lives;
        if let Some((_, until)) = copy.lineage.last_mut() {
            *until = copy.draws;
        }
        remember(&mut copy.lineage, (self.lives, u64::MAX));
        copy.draws = 0;
        self.contenders.push(copy);
    }

    pub(super) fn by_wall_now(&self) -> Wall {
        Wall::from_micros((EPOCH + self.time).saturating_add_signed(self.by_wall_error))
    }

    fn hold_by_wall(&mut self) {
        const TTL: Span = Span::from_micros(1_000_000);
        let now = self.by_wall_now();
        self.by_wall_until = None;
        if self.row.hold_by_wall(BY_WALL, now, TTL) {
            self.by_wall_until = Some(now.after(TTL));
            self.landed = None;
        }
    }

    fn begin_addition(&mut self, who: usize) -> Result<(), Broken> {
        if self.contenders.get(who).is_none_or(|c| c.dead || c.suspended) {
            return Ok(());
        }
        let now = self.now(who);
        let Some(grant) = self.contenders[who].lease.grant(now) else { return Ok(()) };
        let fence = grant.fence.map_or(0, |fence| fence.0);
        let life = self.contenders[who].life;
        match self.guarded.begin(fence, if self.rules.clones { 0 } else { life }) {
            Begun::FenceOfAnother => {
                Err(broken(Promise::GuardedResource, "two grants with one fence"))
            }
            Begun::TurnedAway if self.is_exclusive() => {
                Err(broken(Promise::GuardedResource, "a valid holder was turned away"))
            }
            Begun::Sealed | Begun::TurnedAway => Ok(()),
        }
    }
}
