use proptest::prelude::*;

use super::*;

fn ids(count: usize) -> impl Strategy<Value = RowIds> {
    prop_oneof![
        Just(RowIds::None),
        prop::collection::vec(any::<i64>(), count).prop_map(RowIds::Int),
        prop::collection::vec(any::<String>(), count).prop_map(RowIds::Text),
    ]
}

proptest! {
    #[test]
    fn what_is_packed_comes_back(
        segment in prop::collection::vec(any::<String>(), 1..60)
            .prop_flat_map(|locators| {
                let texts = || prop::option::of(prop::collection::vec(any::<String>(), locators.len()));
                (Just(locators.clone()), ids(locators.len()), texts(), texts(), texts())
            })
            .prop_map(|(locators, row_ids, owns, shares, parents)| Segment { locators, row_ids, owns, shares, parents })
    ) {
        prop_assert_eq!(Segment::unpack(&segment.pack()), Ok(segment));
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic(mut packed in prop::collection::vec(any::<u8>(), 0..300), version in 0_u8..4) {
        if let Some(first) = packed.first_mut() {
            *first = version;
        }
        let _ = Segment::unpack(&packed);
    }
}

#[test]
fn a_cut_segment_is_not_taken_for_a_shorter_one() {
    let segment = Segment {
        row_ids: RowIds::Int((0..500).collect()),
        ..Segment::of((0..500).map(|n| format!("k/{n}")).collect())
    };
    let packed = segment.pack();
    for length in 0..packed.len() {
        assert!(Segment::unpack(&packed[..length]).is_err(), "{length}");
    }
}

#[test]
fn rows_with_mixed_ids_keep_each_its_own() {
    let mut builder = SegmentBuilder::new();
    builder.push_with_int("a", 7);
    builder.push("b");
    builder.push_with_int("c", -9);
    builder.push_with_text("d", "x,y");
    let segment = Segment::unpack(&builder.finish(&mut Packer::new())).unwrap();
    let ids: Vec<_> = (0..4).map(|place| segment.row_id(place).unwrap()).collect();
    assert_eq!(ids, ["7", "", "-9", "x,y"]);
}

#[test]
fn random_hex_keys_take_less_than_22_bytes() {
    let mut builder = SegmentBuilder::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u128;
    for id in 0..1000 {
        state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(0x1234_5678_9abc_def1);
        let locator = format!("https://media.example.com/{state:032x}/original.jpeg");
        builder.push_with_int(&locator, 1_000_000 + id);
    }
    let packed = builder.finish(&mut Packer::new());
    assert!(packed.len() < 22_000, "{} bytes", packed.len());
}
