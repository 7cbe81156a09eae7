//! Seeded lives in which anything may happen next: for breadth, where the others have a point.

use tenure_core::config::{Expiry, Settings, Ttl, Versions};
use tenure_core::io::Wait;
use tenure_core::lease::State;
use tenure_core::time::Span;

use super::scenario::{MS, OTHER, SECOND, Scenario, acquire_of_another, settings};
use super::server::{Has, OwnedReply, Server};
use super::shelf::Shelf;
use super::table::{Field, Table};
use super::wire::{Reply, Wire};

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }
}

/// Steps of each life.
const STEPS: usize = 30;

pub(super) fn scenarios(wire: &str) -> Vec<Scenario> {
    (1..=4).map(|seed| life(wire, seed)).collect()
}

fn life(name: &str, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let expiry = match name {
        "dynamodb" if seed.is_multiple_of(2) => {
            Expiry::Bounded { max_clock_skew: Span::from_millis(300) }
        }
        "dynamodb" => Expiry::Observed,
        _ => Expiry::Store,
    };
    let ttl = if seed == 3 { Ttl::Forever } else { Ttl::For(Span::from_micros(3 * SECOND)) };
    let min_hold = if seed == 4 { Span::from_micros(SECOND) } else { Span::ZERO };
    let mut chosen = Settings { ttl, min_hold, ..settings(expiry) };
    let wire = match name {
        "dynamodb" => Wire::DynamoDb(Table::new()),
        "local" => Wire::Local(Shelf::new()),
        _ => {
            chosen.versions = Versions::PerClaim;
            let has = [Has::REDIS_70, Has::REDIS_84, Has::VALKEY_90, Has::NO_SCRIPTS];
            Wire::Redis(Box::new(Server::new(seed != 2, has[(seed % 4) as usize])))
        }
    };
    let mut s = Scenario::new(format!("a random life, seed {seed}"), chosen, wire);
    s.wide = true;
    let mut late = None;
    for _ in 0..STEPS {
        pass_time(&mut s, &mut random);
        if random.below(12) == 0 {
            meddle(&mut s, &mut random);
        }
        if s.awaits() {
            match random.below(12) {
                0 => drop(s.lose_reply()),
                1 => drop(s.drop_request()),
                2 => drop(s.unavailable(random.below(3) == 0)),
                3 => trouble(&mut s, &mut random),
                4 => late = Some((s.id(), s.perform())),
                _ => drop(s.answer()),
            }
        } else if random.below(8) == 0
            && let Some((id, reply)) = late.take()
        {
            s.reply(id, &reply);
        } else {
            wish(&mut s, &mut random);
        }
    }
    s
}

fn pass_time(s: &mut Scenario, random: &mut Random) {
    match random.below(40) {
        0 => s.after(random.below(20 * SECOND)),
        1 => {
            s.wall = s.wall.map(|wall| wall.saturating_sub(random.below(5 * SECOND)));
            s.after(1)
        }
        2 => {
            s.wall = s.wall.map(|wall| wall + random.below(SECOND));
            s.after(1)
        }
        3..20 => s.until_due(),
        _ => s.after(random.below(300 * MS)),
    };
}

fn wish(s: &mut Scenario, random: &mut Random) {
    match random.below(24) {
        0 => s.renew(),
        1 => s.renew_for(Ttl::For(Span::from_micros(random.below(6 * SECOND)))),
        2 => s.release(),
        3 => s.cancel(),
        4 if random.below(2) == 0 => s.hand_over("web/2"),
        5 => s.wake(),
        6 => s.ask(),
        7 => match s.export() {
            Some(observation) => s.observe(observation),
            None => s,
        },
        _ if s.state() == State::Idle => match random.below(3) {
            0 => s.acquire(Wait::No),
            1 => s.acquire(Wait::Forever),
            _ => s.acquire(Wait::For(Span::from_micros(random.below(5 * SECOND) + 1))),
        },
        _ => s.tick(),
    };
}

/// Somebody else is at the store.
fn meddle(s: &mut Scenario, random: &mut Random) {
    let now = s.store_now();
    let theirs = settings(match &s.wire {
        Wire::DynamoDb(_) if random.below(2) == 0 => {
            Expiry::Bounded { max_clock_skew: Span::from_millis(200) }
        }
        _ => Expiry::Observed,
    });
    let theirs = Settings { ttl: Ttl::For(Span::from_micros(SECOND)), ..theirs };
    let gone = random.below(3) == 0;
    match &mut s.wire {
        Wire::DynamoDb(table) if gone => table.row = None,
        Wire::DynamoDb(table) => match random.below(4) {
            0 => table.write_as_seed("cron@7", (now + SECOND) / MS),
            1 => {
                if let Some(row) = &mut table.row {
                    row.0.insert("leaseDuration".into(), Field::S("soon".into()));
                }
            }
            _ => table.write_as(OTHER, &acquire_of_another(theirs, random.bits().into(), now)),
        },
        Wire::Local(shelf) if gone => shelf.row = None,
        Wire::Local(shelf) => shelf.write_as(OTHER, Some(SECOND), now),
        Wire::Redis(server) if gone => server.held = None,
        Wire::Redis(server) => {
            let value = format!("web/9/c{:032x}", random.bits());
            server.held = Some((value.into_bytes(), Some(now + SECOND)));
            server.has.cached = random.below(2) == 0;
        }
    }
}

/// The store answers, but not what was asked.
fn trouble(s: &mut Scenario, random: &mut Random) {
    let reply = match &mut s.wire {
        Wire::DynamoDb(table) => match random.below(5) {
            0 => Reply::Error { code: "ThrottlingException", status: 400 },
            1 => Reply::Error { code: "InternalServerError", status: 500 },
            2 => Reply::Item { how: "refused", item: None },
            3 => Reply::Item { how: "found", item: table.row.clone() },
            _ => Reply::Item { how: "refused", item: table.row.clone() },
        },
        Wire::Local(_) => {
            s.unavailable(false);
            return;
        }
        Wire::Redis(_) => match random.below(5) {
            0 => Reply::errors("LOADING Redis is loading the dataset in memory"),
            1 => Reply::errors("NOSCRIPT No matching script. Please use EVAL."),
            2 => Reply::errors("OOM command not allowed when used memory > 'maxmemory'."),
            3 => Reply::Replies(vec![OwnedReply::Nil]),
            _ => Reply::errors("ERR timed out"),
        },
    };
    s.say(&reply);
}
