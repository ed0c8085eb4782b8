use super::*;

#[test]
fn a_thread_gives_up_its_own_and_leaves_others_theirs() {
    let before = held();
    // No kernel has a capability 63.
    assert!(lacks(63) && (!before.contains(CapabilitySet::NET_RAW) || !lacks(13)));
    let inside = std::thread::scope(|scope| {
        let bare = || {
            Keep::NOTHING.apply().expect("anybody may give up");
            std::thread::scope(|scope| scope.spawn(held).join().expect("a thread"))
        };
        scope.spawn(bare).join().expect("a thread")
    });
    assert_eq!((inside, held()), (CapabilitySet::empty(), before));
}

#[test]
fn what_is_kept_in_reserve_is_held_and_not_in_force() {
    if !held().contains(CapabilitySet::NET_ADMIN) {
        println!("SKIPPED: giving up a part needs a whole (root)");
        return;
    }
    let keep = Keep {
        held: CapabilitySet::NET_ADMIN,
        in_force: CapabilitySet::empty(),
        user: Some(User {
            uid: Uid::from_raw(65_534),
            gid: Gid::from_raw(65_534),
            groups: vec![Gid::from_raw(65_534)],
        }),
    };
    let sets = std::thread::scope(|scope| {
        let kept = || {
            keep.apply().expect("root");
            raw::capabilities(None).expect("our own")
        };
        scope.spawn(kept).join().expect("a thread")
    });
    assert_eq!(sets.permitted, CapabilitySet::NET_ADMIN);
    assert!(sets.effective.is_empty() && sets.inheritable.is_empty());
    assert!(getuid().is_root(), "the user of one thread is not that of another");
}

#[test]
fn what_is_in_reserve_is_in_force_for_the_call_alone() {
    let cap = CapabilitySet::NET_ADMIN;
    let before = raw::capabilities(None).expect("our own");
    if !before.permitted.contains(cap) {
        println!("SKIPPED: needs CAP_NET_ADMIN (root)");
        return;
    }
    let in_force = || raw::capabilities(None).expect("our own").effective.contains(cap);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reserve = CapabilitySets {
                effective: CapabilitySet::empty(),
                ..before
            };
            raw::set_capabilities(None, reserve).expect("less is always granted");
            assert!(!in_force());
            assert!(with_reserve(cap, in_force));
            assert!(!in_force());
            let nothing = CapabilitySets {
                permitted: CapabilitySet::empty(),
                ..reserve
            };
            raw::set_capabilities(None, nothing).expect("less is always granted");
            assert!(!with_reserve(cap, in_force));
        });
    });
}

#[test]
fn what_is_put_aside_is_not_in_force_and_comes_back() {
    let before = raw::capabilities(None).expect("our own");
    if !before.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
        println!("SKIPPED: becoming another user needs root");
        return;
    }
    let user = User {
        uid: Uid::from_raw(65_534),
        gid: Gid::from_raw(65_533),
        groups: vec![Gid::from_raw(65_533)],
    };
    let now = || {
        (
            raw::capabilities(None).expect("our own").effective,
            geteuid(),
            getegid(),
        )
    };
    let body = || {
        let whole = now();
        let groups = rustix::process::getgroups().expect("groups");
        {
            let _aside = aside(None).expect("root");
            assert_eq!(now(), (CapabilitySet::empty(), whole.1, whole.2));
        }
        assert_eq!(now(), whole);
        {
            let _aside = aside(Some(&user)).expect("root");
            assert_eq!(now(), (CapabilitySet::empty(), user.uid, user.gid));
            assert_eq!(rustix::process::getgroups().expect("groups"), user.groups);
            let shadow = std::fs::File::open("/proc/1/mem").map(|_| ());
            assert!(shadow.is_err(), "root's files are root's");
        }
        assert_eq!(now(), whole);
        assert_eq!(rustix::process::getgroups().expect("groups"), groups);
    };
    std::thread::scope(|scope| scope.spawn(body).join().expect("a thread"));
    assert!(geteuid().is_root(), "the user of one thread is not that of another");
}

#[test]
fn names_are_the_kernels() {
    assert_eq!(
        names(CapabilitySet::NET_ADMIN | CapabilitySet::BPF),
        "CAP_NET_ADMIN, CAP_BPF"
    );
    assert_eq!(names(CapabilitySet::empty()), "none");
}

#[test]
fn a_test_is_started_with_nothing_lent() {
    assert!(!is_lent() && !is_set_id());
}
