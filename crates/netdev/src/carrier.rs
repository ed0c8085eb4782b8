//! Links that go down because something was attached to their interface, and come back.

use crate::NetDev;
use std::time::{Duration, Instant};

/// Longest time that a link may take to come back after a program was attached: many drivers set up their queues again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// Waits for links that went down when an XDP program was attached, given the interfaces as they were before. A link
/// that was down before is not waited for. Returns a remark for each link that has not come back: a run goes on without
/// it, as it does when a link goes down later, and reports that the link is down.
pub fn await_carrier<'a>(before: impl IntoIterator<Item = &'a NetDev>) -> Vec<String> {
    await_within(PATIENCE, before)
}

fn await_within<'a>(patience: Duration, before: impl IntoIterator<Item = &'a NetDev>) -> Vec<String> {
    let begun = Instant::now();
    let mut remarks = Vec::new();
    for device in before.into_iter().filter(|device| device.running) {
        // An interface that is gone is reported by the code that uses it.
        while NetDev::by_index(device.ifindex).is_ok_and(|now| !now.running) {
            if begun.elapsed() >= patience {
                remarks.push(format!(
                    "{}: no carrier {} s after the XDP program was attached: the run goes on without a link until it \
                     comes back",
                    device.name,
                    patience.as_secs()
                ));
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs a test in a network namespace of its own, where only `lo` is, and down.
    fn alone(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: unshare(2) takes no pointers; only this thread's namespace changes.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                    println!("SKIPPED: network namespaces need root");
                    return;
                }
                test();
            });
        });
    }

    #[test]
    fn a_link_that_does_not_come_back_is_told_and_none_that_was_down_before() {
        alone(|| {
            let lo = NetDev::by_name("lo").expect("every namespace has it");
            assert!(!lo.running);
            assert_eq!(await_within(PATIENCE, [&lo]), Vec::<String>::new());
            let was_up = NetDev { running: true, ..lo };
            let remarks = await_within(Duration::ZERO, [&was_up, &was_up]);
            assert_eq!(remarks.len(), 2, "{remarks:?}");
            assert!(remarks[0].starts_with("lo: no carrier 0 s after"), "{remarks:?}");
        });
    }

    #[test]
    fn a_link_that_comes_back_is_waited_for_and_one_that_is_gone_is_not() {
        alone(|| {
            let lo = NetDev::by_name("lo").expect("every namespace has it");
            let was_up = NetDev { running: true, ..lo };
            let gone = NetDev {
                ifindex: 99,
                ..was_up.clone()
            };
            std::thread::scope(|scope| {
                // Threads have the namespace of the one that started them.
                scope.spawn(|| {
                    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
                    assert!(up.expect("ip is installed").success());
                });
                let patience = Duration::from_secs(600);
                assert_eq!(await_within(patience, [&was_up, &gone]), Vec::<String>::new());
            });
            assert!(NetDev::by_name("lo").expect("it is there").running);
        });
    }
}
