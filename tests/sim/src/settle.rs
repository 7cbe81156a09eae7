//! The faults stop: what must become of the world then, and how soon. This turns "in the end" into a
//! bound that can be checked from any state.

use tenure_core::io::{Input, Wait};
use tenure_core::lease::State;
use tenure_core::time::Span;

use crate::action::Action;
use crate::promise::{Broken, Promise, broken};
use crate::world::{EXACT, World};

/// Everybody gives up, nothing is lost any more, and what is left is undone; then one contender, begun
/// anew, gets the name within the bound, releases it, and leaves it free.
///
/// Time passes in whole `grain`s, in microseconds.
///
/// # Errors
/// The promise that was broken.
pub fn settle(world: &mut World, grain: u64) -> Result<(), Broken> {
    world.clear_network();
    if world.row.parts().ttl.is_forever() && world.is_held_by_the_dead() {
        // Nothing but a person ends this.
        world.apply(&Action::Delete)?;
    }
    let stored = world.row.parts().ttl;
    let longest = if stored.is_forever() { Span::ZERO } else { stored };
    for who in 0..world.contenders.len() {
        world.apply(&Action::Resume(who))?;
        world.apply(&Action::Input(who, Input::Release))?;
    }
    let ttl = world.contenders.iter().map(|c| c.born.config.first_terms().ttl());
    let ttl = ttl.max().unwrap_or(Span::ZERO).max(longest).as_micros();
    // A renewal may have asked for several times the ttl, be on its way that long, and stand that long.
    run(world, grain, 8 * ttl, |_| false)?;
    if world.contenders.iter().any(|c| !c.dead && c.lease.state() != State::Idle) {
        return Err(broken(Promise::Bounded, "undoing does not end"));
    }
    take_over(world, 0, grain)?;
    world.apply(&Action::Input(0, Input::Release))?;
    let free = |world: &World| {
        let store_now = world.store_now();
        world.row.holder(store_now).is_none() && world.contenders[0].lease.state() == State::Idle
    };
    if !run(world, grain, ttl, free)? {
        return Err(broken(Promise::NoOrphan, "a released name is not free"));
    }
    Ok(())
}

/// Everybody is dead from here on but one, which begins anew and must hold the name within the stored
/// ttl, both margins and one poll.
///
/// # Errors
/// The promise that was broken.
pub fn take_over(world: &mut World, who: usize, grain: u64) -> Result<(), Broken> {
    world.clear_network();
    let stored = world.row.parts().ttl;
    if stored.is_forever() {
        return Ok(());
    }
    for other in 0..world.contenders.len() {
        world.apply(&Action::Die(other))?;
    }
    world.start_over(who);
    let config = world.contenders[who].born.config;
    let skew = config.first_terms().max_clock_skew().unwrap_or(Span::ZERO);
    let bound = stored
        .plus(config.margin(stored).times(2))
        .plus(skew.times(2))
        .plus(config.poll_interval())
        .as_micros();
    // By a clock that runs as slow as it may, and seen at the end of a grain.
    let slowest = world.contenders[who].born.rates.0.max(1);
    let bound = (u128::from(bound) * u128::from(EXACT) / u128::from(slowest)) as u64;
    world.apply(&Action::Input(who, Input::Acquire { wait: Wait::Forever }))?;
    if !run(world, grain, bound + 3 * grain, |world| world.contenders[who].fence.is_some())? {
        return Err(broken(Promise::Takeover, "not taken within the bound"));
    }
    Ok(())
}

/// Runs for a span of true time, or until `done`, with a network that delivers everything at once.
/// True if it was done.
fn run(
    world: &mut World,
    grain: u64,
    span: u64,
    done: impl Fn(&World) -> bool,
) -> Result<bool, Broken> {
    let end = world.time + span;
    // Nothing may go round in circles while no time passes.
    let mut patience = 10_000_u32;
    while !done(world) {
        patience -= 1;
        if patience == 0 {
            return Err(broken(Promise::Bounded, "it goes round in circles"));
        }
        if let Some(message) = world.network.first() {
            let number = message.number;
            world.apply(&Action::Land(number))?;
            world.apply(&Action::Answer(number))?;
            world.apply(&Action::Lose(number))?;
            continue;
        }
        let due = |who: usize| {
            let c = &world.contenders[who];
            let wake_at = c.wake_at.filter(|_| !c.dead)?;
            Some(wake_at.since(world.clocks(who).mono).as_micros())
        };
        let next = (0..world.contenders.len()).filter_map(|who| Some((due(who)?, who))).min();
        match next {
            Some((0, who)) => {
                world.apply(&Action::Input(who, Input::Tick))?;
            }
            _ if world.time >= end => return Ok(false),
            next => {
                let wait = next.map_or(span, |(wait, _)| wait).clamp(1, end - world.time);
                let by = wait.div_ceil(grain) * grain;
                world.apply(&Action::Pass { by, fast: 0 })?;
            }
        }
    }
    Ok(true)
}
