//! What the guard lets pass, and what it refuses.

use super::*;

fn problem(bytes: &[u8]) -> Option<Problem> {
    check(bytes, 8).err().map(|fault| fault.problem)
}

#[test]
fn depth_is_counted_however_it_is_built() {
    // Lists in lists, seven appends: depth 8, the most allowed; then one more.
    assert!(problem(b"]]]]]]]]aaaaaaa.").is_none());
    assert!(matches!(
        problem(b"]]]]]]]]]aaaaaaaa."),
        Some(Problem::TooDeep { limit: 8 })
    ));
    // Tuples of one, on a stack that never grows.
    assert!(matches!(
        problem(b")\x85\x85\x85\x85\x85\x85\x85\x85."),
        Some(Problem::TooDeep { .. })
    ));
    // Through the memo: each new list takes the one before.
    let mut bytes = b"]q\x00".to_vec();
    for id in 1..9 {
        bytes.extend([b']', b'h', id - 1, b'a', b'q', id]);
    }
    bytes.push(b'.');
    assert!(matches!(problem(&bytes), Some(Problem::TooDeep { .. })));
    // Marks alone.
    assert!(matches!(problem(b"((((((((("), Some(Problem::TooDeep { .. })));
}

#[test]
fn a_placed_container_is_not_changed() {
    // [[]] whose inner list is fetched from the memo and appended to.
    assert!(matches!(problem(b"]]q\x00ah\x00]a."), Some(Problem::Malformed(_))));
}

#[test]
fn calls_are_named() {
    for (bytes, name) in [
        (&b"cos\nsystem\n(S'true'\ntR."[..], "GLOBAL"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93)R.", "STACK_GLOBAL"),
        (b"(ios\nsystem\n.", "INST"),
        (b"]]R.", "REDUCE"),
        (b"]}b.", "BUILD"),
    ] {
        match problem(bytes) {
            Some(Problem::Call { opcode }) => assert_eq!(opcode, name),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }
}

#[test]
fn damage_is_named() {
    for bytes in [
        &b""[..],
        b"]",
        b"X\xff\xff\xff\xffabc",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"I12",
    ] {
        assert!(matches!(problem(bytes), Some(Problem::Cut)), "{bytes:?}");
    }
    for bytes in [
        &b"a."[..],
        b"(a.",
        b"Na.",
        b"h\x07.",
        b"].]",
        b"]].",
        b"e.",
        b"]2a.",
        b"\xff",
        b"T\xff\xff\xff\xff",
    ] {
        assert!(matches!(problem(bytes), Some(Problem::Malformed(_))), "{bytes:?}");
    }
}

/// A text with its length before it.
fn text(bytes: &[u8]) -> Vec<u8> {
    [b"X", &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

#[test]
fn what_is_in_the_memo_is_not_put_there_again() {
    // serde-pickle clones the list for each: 20,000 of them in 40 kB of file would take 13 GB.
    let again = "an item or an index is put into the memo twice";
    for bytes in [
        &b"](NNNe\x94\x94."[..],
        b"]q\x00q\x01.",
        b"]q\x00h\x00q\x01.",
        // An index used again changes what the first list refers to.
        b"](]q\x00]q\x00e.",
        b"](]p0\n]p0\ne.",
    ] {
        match problem(bytes) {
            Some(Problem::Malformed(what)) => assert_eq!(what, again),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }
    assert!(problem(b"](]q\x00]q\x01h\x00h\x01e.").is_none());
}

#[test]
fn references_stand_for_no_more_than_a_snapshot_can_hold() {
    let refers =
        |shared: &[u8], times: usize| -> Vec<u8> { [b"](", shared, b"q\x00", &b"h\x00".repeat(times), b"e."].concat() };
    let is_refused = |bytes: &[u8]| match problem(bytes) {
        Some(Problem::Malformed(what)) => what == "its references stand for more than any snapshot holds",
        Some(other) => panic!("{other:?}"),
        None => false,
    };
    // 10,001 parts: the bytes of the list and of the references, 2 each, allow 256 each and 2^20.
    let list = [b"](", &b"N".repeat(10_000)[..], b"e"].concat();
    // 10,001 * 300 = 3,000,300 of 2^20 + 256 * 10,607 = 3,763,968; and 400: 4,000,400 of 3,815,168.
    assert!(!is_refused(&refers(&list, 299)));
    assert!(is_refused(&refers(&list, 399)));
    // Sixteen bytes of a text are as much as one part: 160,005 / 16 + 1 is 10,001 too, but of a larger file.
    let long = text(&[b'a'; 160_000]);
    // 10,001 * 4,000 = 40,004,000 of 2^20 + 256 * 168,009 = 44,058,880; and 6,000: 60,006,000 of 45,082,880.
    assert!(!is_refused(&refers(&long, 3_999)));
    assert!(is_refused(&refers(&long, 5_999)));
    // What is added between the reference and its use counts: the list is on the stack, and in no other.
    let late = [b"]q\x00", &b"h\x00".repeat(400)[..], b"(", &b"N".repeat(10_000), b"e"].concat();
    let placed = [b"(]q\x01", &late[..], b"t."].concat();
    assert!(is_refused(&placed));
}
