//! Events of the kernel on the lanes' cores: those that the viewer knows are events of ftrace, the others are on a
//! track per core.

use super::{BEGIN, CORE_TRACK, END, INSTANT, KERNEL, Writer, packet};
use crate::kernel::cores;
use crate::proto::Message;
use crate::{Event, KernelEvent};
use std::io::{self, Write};

impl<W: Write> Writer<'_, W> {
    /// Writes the events that the viewer knows: switches, wake-ups, interrupts.
    pub(super) fn kernel(&mut self, events: &[KernelEvent]) -> io::Result<()> {
        for cpu in cores(events) {
            let of_core: Vec<&KernelEvent> = events.iter().filter(|event| event.cpu == cpu).collect();
            let of_core = whole(&of_core);
            // Bundles of some thousand: a packet has to fit into a reader's memory.
            for bundle in of_core.chunks(2048) {
                let boot = self.boot_offset_ns;
                self.send(|packet| {
                    packet.uint(packet::SEQUENCE, KERNEL);
                    packet.nest(packet::FTRACE, |ftrace| {
                        ftrace.uint(1, cpu.into());
                        for event in bundle {
                            ftrace_event(ftrace, event, boot);
                        }
                    });
                })?;
            }
        }
        Ok(())
    }

    /// Writes the events that the viewer does not know.
    pub(super) fn core_events(&mut self, events: &[KernelEvent]) -> io::Result<()> {
        for event in events {
            let track = CORE_TRACK + u64::from(event.cpu);
            match &event.event {
                Event::Vector { name, took_ns } => {
                    let begin = event.at_ns.saturating_sub(*took_ns);
                    self.named(track, (begin, BEGIN), name, "interrupt")?;
                    self.named(track, (event.at_ns, END), "", "")?;
                }
                Event::Signal { signal, tid } => {
                    let name = format!("signal {signal} to thread {tid}");
                    self.named(track, (event.at_ns, INSTANT), &name, "signal")?;
                }
                Event::Drop(drop) => {
                    let name = format!("dropped: {} at {}", drop.reason, drop.place);
                    self.named(track, (event.at_ns, INSTANT), &name, "drop")?;
                }
                Event::Poll { device, work, budget } => {
                    let name = format!("napi {device}: {work} of {budget}");
                    self.named(track, (event.at_ns, INSTANT), &name, "poll")?;
                }
                Event::SwitchedOut { tid, preempted } => {
                    let how = if *preempted { "preempted" } else { "asleep" };
                    let name = format!("thread {tid} switched out: {how}");
                    self.named(track, (event.at_ns, INSTANT), &name, "switch")?;
                }
                Event::SwitchedIn { tid } => {
                    let name = format!("thread {tid} switched in");
                    self.named(track, (event.at_ns, INSTANT), &name, "switch")?;
                }
                // The viewer knows these as events of ftrace.
                Event::Switch { .. } | Event::Waking { .. } | Event::Irq { .. } | Event::Softirq { .. } => {}
            }
        }
        Ok(())
    }
}

/// Returns the events of a core, with a switch added wherever one was not seen: the thread that leaves a core is the
/// one that got it last. The added visit takes no time: the time before belonged to a thread that was not seen to
/// leave.
fn whole(events: &[&KernelEvent]) -> Vec<KernelEvent> {
    let mut whole: Vec<KernelEvent> = Vec::with_capacity(events.len());
    let mut running: Option<(i32, String, i32)> = None;
    for event in events {
        if let Event::Switch {
            prev_tid,
            prev_comm,
            prev_prio,
            next_tid,
            next_comm,
            next_prio,
            ..
        } = &event.event
        {
            if let Some((tid, comm, prio)) = running.filter(|(tid, ..)| tid != prev_tid) {
                whole.push(KernelEvent {
                    at_ns: event.at_ns,
                    cpu: event.cpu,
                    event: Event::Switch {
                        prev_tid: tid,
                        prev_comm: comm,
                        prev_state: 1,
                        prev_prio: prio,
                        next_tid: *prev_tid,
                        next_comm: prev_comm.clone(),
                        next_prio: *prev_prio,
                    },
                });
            }
            running = Some((*next_tid, next_comm.clone(), *next_prio));
        }
        whole.push((*event).clone());
    }
    whole
}

/// Returns a thread's state as tracepoints report it: one bit, among those that tools know. The kernel's own state has
/// further flags (may be frozen, counts for no load), and idle is two of them.
fn reported(state: i64) -> i64 {
    const IDLE: i64 = 0x402;
    const KNOWN: i64 = 0x7f;
    match state & IDLE == IDLE {
        true => 0x80,
        false => state & KNOWN & (state & KNOWN).wrapping_neg(),
    }
}

fn ftrace_event(bundle: &mut Message, event: &KernelEvent, boot_offset_ns: i64) {
    let at = |ns: u64| ns.saturating_add_signed(boot_offset_ns);
    let mut one = |ns: u64, pid: i32, field: u32, fill: &dyn Fn(&mut Message)| {
        bundle.nest(2, |entry| {
            entry.uint(1, at(ns)).uint(2, pid as u32 as u64);
            entry.nest(field, fill);
        });
    };
    match &event.event {
        Event::Switch {
            prev_tid,
            prev_comm,
            prev_state,
            prev_prio,
            next_tid,
            next_comm,
            next_prio,
        } => one(event.at_ns, *prev_tid, 4, &|switch| {
            switch
                .text(1, prev_comm)
                .int(2, (*prev_tid).into())
                .int(3, (*prev_prio).into());
            switch
                .int(4, reported(*prev_state))
                .text(5, next_comm)
                .int(6, (*next_tid).into());
            switch.int(7, (*next_prio).into());
        }),
        Event::Waking { tid, comm, target_cpu } => one(event.at_ns, 0, 20, &|waking| {
            waking.text(1, comm).int(2, (*tid).into()).int(3, 120).int(4, 1);
            waking.int(5, (*target_cpu).into());
        }),
        Event::Irq { irq, name, took_ns } => {
            one(event.at_ns.saturating_sub(*took_ns), 0, 36, &|entry| {
                entry.int(1, (*irq).into()).text(2, name);
            });
            one(event.at_ns, 0, 37, &|exit| {
                exit.int(1, (*irq).into()).int(2, 1);
            });
        }
        Event::Softirq { vector, took_ns } => {
            one(event.at_ns.saturating_sub(*took_ns), 0, 24, &|entry| {
                entry.uint(1, (*vector).into());
            });
            one(event.at_ns, 0, 25, &|exit| {
                exit.uint(1, (*vector).into());
            });
        }
        _ => {}
    }
}
