//! What EXPLAIN says of a query.

use serde_json::Value;

/// What the queries of the guard call the values that they look for.
const ASKED: &str = "storage_reaper_asked";

/// Whether every table in the plan is read through an index that finds what is asked for; one that only narrows a filter
/// down does not count.
pub fn uses_indexes(explained: &Value) -> bool {
    explained.get(0).and_then(|query| query.get("Plan")).is_some_and(every_scan_finds)
}

/// Whether some table in the plan is found by its fingerprints: what a view joins to it may be small enough to be read as
/// a whole, which says nothing about the day when it is not.
pub fn begins_with_fingerprints(explained: &Value) -> bool {
    explained.get(0).and_then(|query| query.get("Plan")).is_some_and(|plan| any_condition(plan, "fingerprint"))
}

/// Whether the node or one below it has an index condition that says so.
fn any_condition(node: &Value, what: &str) -> bool {
    let condition = node.get("Index Cond").and_then(Value::as_str).unwrap_or_default();
    condition.contains(what) || below(node).iter().any(|node| any_condition(node, what))
}

fn below(node: &Value) -> &[Value] {
    node.get("Plans").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn every_scan_finds(node: &Value) -> bool {
    let kind = node.get("Node Type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        // Of several indexes below, one is enough.
        "Index Scan" | "Index Only Scan" | "Bitmap Heap Scan" => any_condition(node, ASKED),
        _ => node.get("Relation Name").is_none() && below(node).iter().all(every_scan_finds),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{begins_with_fingerprints, uses_indexes};

    #[test]
    fn one_partition_without_the_index_is_a_scan() {
        let scan = |kind: &str| json!({"Node Type": kind, "Relation Name": "p1"});
        let found =
            json!({"Node Type": "Index Scan", "Relation Name": "p2", "Index Cond": "(a = storage_reaper_asked.print)"});
        let plan = |plans: Vec<serde_json::Value>| json!([{"Plan": {"Node Type": "Append", "Plans": plans}}]);
        assert!(uses_indexes(&plan(vec![found.clone(), found.clone()])));
        assert!(!uses_indexes(&plan(vec![found.clone(), scan("Seq Scan")])));
        assert!(!uses_indexes(&plan(vec![scan("Index Scan")])), "a whole index is a scan as well");
        let narrowed = json!({"Node Type": "Index Scan", "Relation Name": "p3", "Index Cond": "(deleted_at IS NULL)"});
        assert!(!uses_indexes(&plan(vec![narrowed])), "it only narrows the filter down");
        assert!(!uses_indexes(&json!({})));
        let joined = json!({"Node Type": "Index Scan", "Index Cond": "(storage_reaper.fingerprint(key) = $0)"});
        assert!(begins_with_fingerprints(&plan(vec![scan("Seq Scan"), joined])));
        assert!(!begins_with_fingerprints(&plan(vec![found])));
    }
}
