//! Fails to build as soon as anything below it links `std`, which brings a panic handler of its own
//! (E0152), or needs an allocator, of which there is none.
#![no_std]

use tenure_core::config::{Config, Expiry, Settings, Ttl};
use tenure_core::io::{Input, Wait};
use tenure_core::lease::Lease;
use tenure_core::memory::{Ends, Store};
use tenure_core::time::{Instant, Now, Span};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Acquires a lease in the memory store; 0 if that went well.
#[unsafe(no_mangle)]
pub extern "C" fn tenure_no_std_check() -> u32 {
    let settings = Settings::new(Ttl::For(Span::from_millis(1_000)), Expiry::Store);
    let Ok(config) = Config::new(settings) else { return 1 };
    let mut lease = Lease::new(config);
    let now = Now { mono: Instant::from_micros(1), wall: None, entropy: 7 };
    let output = lease.handle(now, Input::Acquire { wait: Wait::No });
    let Some(call) = output.call else { return 2 };
    let mut store: Store<u8, u8, 2> = Store::new(Ends::ByStore);
    let outcome = store.carry_out(1, 1, None, &call, now.mono);
    let _ = lease.handle(now, Input::Completed { id: call.id, outcome });
    u32::from(lease.grant(now).is_none())
}
