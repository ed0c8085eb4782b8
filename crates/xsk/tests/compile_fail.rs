//! What must not compile does not: each program of `tests/ui` is a misuse that a user would try.

#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
