//! The Rust half of what is shared with the programs against the C half: every field of every struct, as the compiler
//! has laid it out in the objects, and every number that has a name.

use crate::abi::*;
use crate::c_side::{Layout, enumeration, layout_of, line_info, structs};
use crate::load::Which;
use crate::{forward, reasons};
use mpps_wire::Left;
use std::collections::BTreeMap;

const RUN_H: &str = include_str!("../bpf/run.h");
const TEST_H: &str = include_str!("../bpf/test.h");
const UDP_H: &str = include_str!("../bpf/udp.h");

/// By the C struct's name.
fn ours() -> Vec<(&'static str, Layout)> {
    let mut all = vec![
        (
            "plan",
            layout_of!(Plan {
                interval_ns,
                settle_ns,
                seed,
                catch_up_ns,
                key,
                flags,
                sources,
                rows,
                periods,
                rows_per_period,
                clock_every,
                streams,
                namespace,
                device,
                addresses4_count,
                addresses6_count,
                answer4_count,
                answer6_count,
                addresses4,
                answer4,
                addresses6,
                answer6,
                mac,
                unused,
                hop4,
                hop6,
                l3,
                l4,
                payload_len,
                frame_len,
                sum,
                open_sum,
                src_first,
                src_count,
                dst_first,
                flows,
                lanes,
                window_words,
                slips,
                src,
                dst,
                back,
                lane_cpu,
                max_flows,
                table,
                own,
                peer,
                axis,
                longest,
                scheduled,
                senders,
                places
            }),
        ),
        (
            "writer",
            layout_of!(Writer {
                start,
                step,
                count,
                mask,
                constant,
                at,
                kind,
                shift,
                table,
                factor
            }),
        ),
        (
            "sum_of",
            layout_of!(PartOfSum {
                at,
                constant,
                zero,
                rest,
                inner
            }),
        ),
        (
            "image",
            layout_of!(Image {
                word,
                headers,
                data,
                writers,
                sums,
                writer,
                sum
            }),
        ),
        (
            "loops",
            layout_of!(Loops {
                secret,
                own4_count,
                own6_count,
                broadcasts_count,
                loopback,
                own4,
                broadcasts,
                own6
            }),
        ),
        (
            "forward_port",
            layout_of!(ForwardPort {
                base,
                sources,
                rewrite,
                source,
                destination
            }),
        ),
        ("forward", layout_of!(Forward { ports, port })),
        (
            "run",
            layout_of!(Run {
                start_ns,
                end_ns,
                stopped,
                redirect
            }),
        ),
        ("heard", layout_of!(Heard { mac, known })),
        (
            "moments",
            layout_of!(Moments {
                count,
                sum,
                min_complement,
                max
            }),
        ),
        (
            "row",
            layout_of!(Row {
                tx,
                missed,
                rx,
                duplicates,
                reordered,
                distance_sum,
                corrupt,
                foreign,
                expected,
                unused,
                latency,
                scheduled
            }),
        ),
        (
            "source",
            layout_of!(Source {
                now_ns,
                left,
                redirect,
                row_begin,
                row_end,
                row_key,
                period_key,
                limit,
                start_ns,
                cpu,
                place,
                others,
                passed,
                polls,
                test,
                tx,
                bytes,
                late,
                distance_max,
                first_ns,
                last_ns,
                reasons,
                burst,
                room,
                row_first,
                period_first,
                late_of,
                distance_of,
                size,
                unused,
                more_room
            }),
        ),
        (
            "flow_window",
            layout_of!(FlowWindow {
                next,
                bits,
                owner,
                generation,
                lock,
                last
            }),
        ),
        ("window_word", layout_of!(WindowWord { bits, tag })),
        ("octave", layout_of!(Octave { bucket })),
        ("wide_octave", layout_of!(WideOctave { bucket })),
        ("refused", layout_of!(Refused { packets, error, unused })),
        (
            "lane",
            layout_of!(Lane {
                due_ns,
                due_fraction,
                step_ns,
                step_fraction,
                remaining,
                unit,
                in_unit,
                random,
                schedule_end_ns,
                first_flow,
                flow_step,
                flows,
                number,
                writer,
                run,
                joins_ns,
                unused,
                headers,
                room,
                now_ns,
                left,
                cursor,
                seq,
                row_end,
                row_key,
                done,
                pending,
                packets,
                bursts,
                waits,
                last_ns,
                gaps,
                answering,
                more_room,
                limit,
                apart,
                due
            }),
        ),
        (
            "flow_ports",
            layout_of!(FlowPorts {
                source,
                destination,
                sum,
                check
            }),
        ),
        ("slip", layout_of!(Slip { entry, sent_ns })),
        ("flow_addresses", layout_of!(FlowAddresses { source, destination })),
        ("within", layout_of!(Within { high, low, count, v6 })),
        ("axis", layout_of!(Axis { count, every })),
        (
            "stream",
            layout_of!(Stream {
                first,
                end,
                seats,
                sizes,
                cycle,
                turns,
                seed,
                cpu
            }),
        ),
        (
            "sized",
            layout_of!(Sized {
                word,
                constant,
                sum,
                rest,
                data,
                place
            }),
        ),
    ];
    // The program reads the address, and what is unused behind it, as one word.
    let plan = &mut all.iter_mut().find(|(name, _)| *name == "plan").expect("it is there").1;
    let mac = plan.fields.iter().position(|field| field.0 == "mac").expect("a field");
    let unused = plan.fields.remove(mac + 1);
    let (_, offset, size, align) = &mut plan.fields[mac];
    assert_eq!((unused.0.as_str(), unused.1), ("unused", *offset + *size));
    (*size, *align) = (*size + unused.2, 8);
    all
}

#[test]
fn every_field_lies_where_the_programs_have_it() {
    let ours = ours();
    let mut compared = BTreeMap::new();
    for which in [Which::Traffic, Which::Reflect, Which::Drop, Which::Forward] {
        let theirs = structs(which.object());
        for (name, layout) in &ours {
            let Some(their) = theirs.get(*name) else { continue };
            assert_eq!(their.size, layout.size, "{which:?}: struct {name}");
            for (their, our) in their.fields.iter().zip(&layout.fields) {
                assert_eq!(their, our, "{which:?}: struct {name}: name, offset, size, alignment");
            }
            assert_eq!(their.fields.len(), layout.fields.len(), "{which:?}: struct {name}");
            *compared.entry(*name).or_insert(0) += 1;
        }
    }
    let not_found: Vec<_> = ours.iter().filter(|(name, _)| !compared.contains_key(name)).collect();
    assert!(not_found.is_empty(), "in no object: {not_found:#?}");
    assert_eq!((compared["plan"], compared["source"], compared["row"]), (4, 4, 4));
}

#[test]
fn objects_do_not_carry_their_source() {
    for which in [Which::Traffic, Which::Reflect, Which::Drop, Which::Forward] {
        let bytes = line_info(which.object());
        assert!(
            bytes < 12_288,
            "{which:?}: {bytes} bytes: scripts/xdp.sh leaves calls alone"
        );
    }
}

/// Places and names as the programs have them, in the form of summaries.
fn counted(source: &str, member: &str) -> BTreeMap<usize, String> {
    let list = enumeration(source, member).into_iter();
    list.map(|(place, name)| (place as usize, name.trim_start_matches("LEFT_").to_lowercase()))
        .collect()
}

#[test]
fn reasons_have_the_programs_places_and_names_and_those_of_the_lanes() {
    let of = |all: &[Which]| -> BTreeMap<usize, String> {
        let names = all.iter().flat_map(|&which| reasons::of(which)).copied().flatten();
        names.map(|&(place, name)| (place, name.as_str().to_owned())).collect()
    };
    let (mut left, run) = (counted(UDP_H, "LEFT_TOO_SHORT"), counted(RUN_H, "NEIGHBOR_SERVICE"));
    // Frames that `forward` does not take are the host's, which has a counter of its own.
    assert_eq!(run[&14], "not_taken");
    let named = |place: usize| BTreeMap::from([(place, run[&place].clone())]);
    let mut reflect = left.clone();
    reflect.extend(named(13));
    assert_eq!(of(&[Which::Reflect]), reflect);
    assert_eq!(of(&[Which::Forward]), named(15));
    let test = counted(TEST_H, "FOREIGN_NOT_STAMPED");
    let mut drop = test.clone();
    drop.extend(
        left.iter()
            .filter(|(place, _)| **place <= 14)
            .map(|(p, n)| (*p, n.clone())),
    );
    drop.extend(named(13));
    assert_eq!(of(&[Which::Drop]), drop);
    let traffic = of(&[Which::Traffic]);
    assert!(
        traffic.iter().all(|(place, name)| drop.get(place) == Some(name)),
        "{traffic:?}"
    );
    // The programs have this one in another place.
    let tagged = Left::NotTagged.as_str();
    assert_eq!(left.remove(&14).as_deref(), Some(tagged));
    let lanes: Vec<_> = Left::ALL
        .iter()
        .map(|left| left.as_str())
        .filter(|left| *left != tagged)
        .collect();
    assert_eq!(left.values().collect::<Vec<_>>(), lanes);
    let all = left.keys().chain(run.keys()).chain(test.keys());
    assert!(all.max().is_some_and(|most| *most < REASONS));
}

#[test]
fn flags_and_sizes_are_the_programs() {
    let ours = [
        (flag::BY_CPU, "BY_CPU"),
        (flag::CHECK_DATA, "CHECK_DATA"),
        (flag::OPEN_CHECKSUMS, "OPEN_CHECKSUMS"),
        (flag::OWN_MAC, "OWN_MAC"),
        (flag::RECEIVE, "RECEIVE"),
        (flag::PACED, "PACED"),
        (flag::RANDOM, "RANDOM"),
        (flag::IPV6, "IPV6"),
        (flag::STAMPED, "STAMPED"),
        (flag::VETH, "VETH"),
        (flag::ADDRESSES_VARY, "ADDRESSES_VARY"),
        (flag::TOGETHER, "TOGETHER"),
        (flag::SEVERAL, "SEVERAL"),
        (flag::ANSWER_OWN, "ANSWER_OWN"),
        (flag::ACROSS, "ACROSS"),
        (flag::TURNED, "TURNED"),
        (flag::LIMITED, "LIMITED"),
        (flag::MOVED, "MOVED"),
        (flag::TAGGED, "TAGGED"),
        (flag::JOINS, "JOINS"),
        (flag::SIZES, "SIZES"),
    ];
    let ours: BTreeMap<u64, String> = ours.map(|(bit, name)| (bit.into(), name.to_owned())).into();
    assert_eq!(ours, enumeration(RUN_H, "BY_CPU"));
    let ours = [
        (forward::REWRITE_NOTHING, "REWRITE_NOTHING"),
        (forward::REWRITE_MACS, "REWRITE_MACS"),
        (forward::REWRITE_FIVE_TUPLE, "REWRITE_FIVE_TUPLE"),
        (forward::REWRITE_L2, "REWRITE_L2"),
    ];
    let ours: BTreeMap<u64, String> = ours.map(|(kind, name)| (kind.into(), name.to_owned())).into();
    let source = include_str!("../bpf/forward.bpf.c");
    assert_eq!(ours, enumeration(source, "REWRITE_L2"));
    // Constants that are in no struct. The lengths of lists inside a struct are compared with the struct.
    assert!(include_str!("../bpf/loops.h").contains(&format!("\tSETS = {SETS},")));
    assert!(RUN_H.contains(&format!("OCTAVES = {OCTAVES}, OCTAVE = {OCTAVE} ")));
    let most = format!("MOST_STREAMS = {MOST_STREAMS}, MOST_SIZES = {MOST_SIZES}, MOST_PLACES = {MOST_PLACES} ");
    assert!(RUN_H.contains(&most));
}
