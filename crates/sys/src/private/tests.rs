use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

/// A folder that is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mpps-private-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ones_own_files_and_links_in_ones_own_folder_are_followed() {
    let own = Scratch::new("own");
    let (file, link) = (own.0.join("file"), own.0.join("link"));
    std::fs::write(&file, "before").expect("a file");
    symlink("file", &link).expect("a link");
    for path in [&file, &link, &own.0.join("./x/../link")] {
        std::fs::create_dir_all(own.0.join("x")).expect("a folder");
        std::fs::write(&file, "before").expect("a file");
        drop(create(path, OFlags::empty()).expect("ours"));
        assert_eq!(std::fs::read(&file).expect("a file"), b"");
    }
    for path in ["/dev/stdout", "/dev/null", "/proc/self/fd/1"] {
        // The file may be closed in the shell that runs the tests.
        if std::fs::metadata(path).is_ok() {
            // Kept as it is: it may be the log of these tests.
            open(Path::new(path), OFlags::empty()).expect(path);
        }
    }
}

#[test]
fn links_that_come_in_the_way_later_lead_nowhere() {
    let own = Scratch::new("later");
    let (dir, away, file) = (own.0.join("dir"), own.0.join("away"), own.0.join("dir/file"));
    let victim = own.0.join("victim");
    std::fs::create_dir(&dir).expect("a folder");
    std::fs::write(&victim, "kept").expect("a file");
    let place = Place::find(&file).expect("a way").expect("a file's place");
    assert_eq!(place.look().expect("a look"), None);
    place.replace(b"first").expect("ours");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("chmod");
    place.replace(b"second").expect("ours");
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(
        (std::fs::read(&file).expect("a file"), mode & 0o777),
        (b"second".to_vec(), 0o640)
    );
    // A link in place of the file.
    std::fs::remove_file(&file).expect("removed");
    symlink("../victim", &file).expect("a link");
    assert!(place.look().is_err() && place.open(OFlags::empty()).is_err() && place.replace(b"x").is_err());
    // A link in place of the folder: the folder is the one that was found.
    std::fs::remove_file(&file).expect("removed");
    std::fs::rename(&dir, &away).expect("moved");
    symlink(".", &dir).expect("a link");
    place.replace(b"third").expect("ours");
    assert_eq!(std::fs::read(away.join("file")).expect("a file"), b"third");
    assert!(!own.0.join("file").exists() && std::fs::read(&victim).expect("a file") == b"kept");
    assert_eq!(
        std::fs::read_dir(&away).expect("a folder").count(),
        1,
        "a draft was left"
    );
}

#[test]
fn links_files_and_folders_of_others_are_refused_where_others_may_put_them() {
    if me() != 0 {
        return println!("SKIPPED: only root can make files of somebody else");
    }
    let place = Scratch::new("theirs");
    let victim = place.0.join("victim");
    let shared = place.0.join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    for (owner, mode) in [(65534, 0o755), (0, 0o1777), (0, 0o775)] {
        chown(&shared, Some(owner), None).expect("chown");
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).expect("chmod");
        for (name, target) in [("link", "../victim"), ("dangling", "../none"), ("dir", "..")] {
            let link = shared.join(name);
            let _ = std::fs::remove_file(&link);
            symlink(target, &link).expect("a link");
            std::os::unix::fs::lchown(&link, Some(65534), None).expect("lchown");
        }
        std::fs::write(&victim, "kept").expect("a file");
        std::fs::write(shared.join("theirs"), "kept").expect("a file");
        chown(shared.join("theirs"), Some(65534), None).expect("chown");
        for name in ["link", "dangling", "dir/victim", "theirs"] {
            for error in [
                create(&shared.join(name), OFlags::empty()).err(),
                check(&shared.join(name)).err(),
            ] {
                let error = error
                    .unwrap_or_else(|| panic!("{name} of {owner} {mode:o}"))
                    .to_string();
                assert!(
                    error.contains("user 65534") && error.contains("not yours alone"),
                    "{error}"
                );
            }
        }
        for name in ["link", "dir/victim", "theirs"] {
            assert!(remove(&shared.join(name)).is_err(), "{name}");
            assert!(shared.join(name).symlink_metadata().is_ok(), "{name}");
        }
        assert_eq!(std::fs::read(&victim).expect("a file"), b"kept");
        assert!(!place.0.join("none").exists());
        // Files that are new, or ours, are handled as before.
        create(&shared.join("new"), OFlags::empty()).expect("new");
        create(&shared.join("new"), OFlags::empty()).expect("ours");
        remove(&shared.join("new")).expect("ours");
        assert!(!shared.join("new").exists());
        std::fs::hard_link(&victim, shared.join("second")).expect("a second name");
        assert!(create(&shared.join("second"), OFlags::empty()).is_err());
        std::fs::remove_file(shared.join("second")).expect("ours");
    }
}

#[test]
fn a_private_folder_is_no_link_nobody_elses_and_closed() {
    let place = Scratch::new("folder");
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let path = place.0.join("new");
    folder(&path).expect("made");
    assert_eq!(mode(&path), 0o700);
    for open in [0o777, 0o755] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(open)).expect("chmod");
        folder(&path).expect("ours");
        assert_eq!(mode(&path), 0o700);
    }
    symlink(&path, place.0.join("link")).expect("a link");
    assert!(folder(&place.0.join("link")).is_err());
    if me() == 0 {
        chown(&path, Some(65534), None).expect("chown");
        assert!(folder(&path).expect_err("theirs").to_string().contains("user 65534"));
    }
}

#[test]
fn a_file_is_its_readers_or_roots_only_where_nobody_else_has_a_hand_in_it() {
    let place = Scratch::new("author");
    let mode =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    let (folder, file) = (place.0.join("folder"), place.0.join("folder/file"));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(&file, "text").expect("a file");
    symlink("folder/file", place.0.join("link")).expect("a link");
    let told = |path: &Path| {
        let file = File::open(path).expect("there");
        other_author(&file, path).expect("a look").unwrap_or_default()
    };
    for (of_folder, of_file, part) in [
        (0o755, 0o644, ""),
        (0o1777, 0o644, ""),
        (0o755, 0o646, "others than its owner may write to this file"),
        (0o777, 0o644, "others may put files into its folder"),
    ] {
        mode(&folder, of_folder);
        mode(&file, of_file);
        for path in [&file, &place.0.join("link")] {
            let told = told(path);
            assert!(
                told.starts_with(part) && told.is_empty() == part.is_empty(),
                "{of_folder:o} {of_file:o}: {told}"
            );
        }
    }
    mode(&folder, 0o755);
    assert_eq!(told(Path::new("/dev/null")), "");
    if me() != 0 {
        return println!("SKIPPED: only root can make files of somebody else");
    }
    // A group of root's is more than root.
    for (path, part) in [(&file, "others than its owner"), (&folder, "others may put files")] {
        mode(path, 0o775);
        assert!(told(&file).starts_with(part), "{part}");
        mode(path, 0o755);
    }
    for (path, part) in [
        (&file, "user 65534 owns this file"),
        (&folder, "user 65534 owns its folder "),
    ] {
        chown(path, Some(65534), Some(65534)).expect("chown");
        assert!(told(&file).starts_with(part), "{part}");
        assert!(told(&place.0.join("link")).starts_with(part), "{part}");
        chown(path, Some(0), Some(0)).expect("chown");
    }
}
