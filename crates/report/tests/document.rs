//! The files of a document: what they hold, what they never hold, and that they are what their formats say.

mod example;

use mpps_report::document::files;

#[test]
fn a_folder_holds_the_record_and_what_is_made_from_it() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("example");
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = files(&example::document()).expect("plain names");
    for (name, contents) in &files {
        std::fs::write(folder.join(name), contents).expect("a file");
        println!("{name} {}", contents.len());
    }
}
