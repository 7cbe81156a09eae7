//! The shortest schedule found that breaks the same promise: what a person wants to read.

use crate::action::Action;
use crate::promise::{Broken, Promise};
use crate::world::World;

/// Leaves out whatever the breach does not need: first large parts, then ever smaller ones, until no
/// single action can go. What becomes impossible without another changes nothing, so any rest of a
/// schedule can be run.
#[must_use]
pub fn shrink(world: &World, schedule: &[Action], breaks: Promise) -> Vec<Action> {
    let mut shortest = up_to_breach(world, schedule, breaks).unwrap_or_else(|| schedule.to_vec());
    let mut part = shortest.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        let before = shortest.len();
        while at < shortest.len() {
            let mut rest = shortest.clone();
            rest.drain(at..(at + part).min(shortest.len()));
            match up_to_breach(world, &rest, breaks) {
                Some(shorter) => shortest = shorter,
                None => at += part,
            }
        }
        part = if part == 1 && shortest.len() < before { 1 } else { part / 2 };
    }
    join_passes(world, shortest, breaks)
}

/// Two stretches of time that follow each other are one, by the same clocks.
fn join_passes(world: &World, schedule: Vec<Action>, breaks: Promise) -> Vec<Action> {
    let mut joined: Vec<Action> = Vec::new();
    for action in &schedule {
        match (joined.last_mut(), action) {
            (Some(Action::Pass { by, .. }), Action::Pass { by: more, .. }) => *by += more,
            _ => joined.push(action.clone()),
        }
    }
    up_to_breach(world, &joined, breaks).unwrap_or(schedule)
}

/// Runs a schedule from this world.
///
/// # Errors
/// What it breaks, and how many actions that took.
pub fn run(world: &World, schedule: &[Action]) -> Result<(), (usize, Broken)> {
    let mut world = world.clone();
    for (index, action) in schedule.iter().enumerate() {
        world.apply(action).map_err(|broken| (index + 1, broken))?;
    }
    Ok(())
}

fn up_to_breach(world: &World, schedule: &[Action], breaks: Promise) -> Option<Vec<Action>> {
    match run(world, schedule) {
        Err((taken, broken)) if broken.promise == breaks => Some(schedule[..taken].to_vec()),
        _ => None,
    }
}
