//! TRUNCATE and DROP: every row of a table, read while it is still there.

use crate::error::{Error, Result};
use crate::pg::cursor::Sight;
use crate::pg::relation::Relation;
use crate::pg::tuples::Tuples;
use crate::pg::user::ActingAs;
use crate::store::catalog;

use super::locator::Locator;
use super::plan::Plan;
use super::statement::{capture_rows, named, push_all};
use super::writer::Writer;

/// Called before TRUNCATE empties the table.
pub fn capture_truncate(relation: &Relation<'_>, plan: &Plan) -> Result<()> {
    if plan.forbid_truncate {
        return Err(Error::TruncateForbidden(relation.name()));
    }
    capture_table(relation, plan);
    Ok(())
}

/// Captures the objects of every row. The table is locked exclusively by the command that is about to remove it.
pub fn capture_table(relation: &Relation<'_>, plan: &Plan) {
    if !relation.has_storage() {
        return;
    }
    match &plan.locator {
        // As the table's owner: whoever truncates need not be able to read, and an owner's expression must not run
        // with more rights than the owner has. An error refuses the command, since its rows could not be read.
        Locator::Query(sql) => {
            let from = format!("ONLY {}", catalog::qualified_name(relation.oid()));
            let query = sql.over(&named(&from, &plan.alias));
            let mut writer = Writer::new(plan, None).of_whole_table();
            let rights = ActingAs::owner_of(relation.oid());
            push_all(&query, &Sight::Latest, &mut writer);
            std::mem::drop(rights);
            writer.finish();
        }
        _ => capture_rows(Tuples::of_table(relation), plan, Writer::of_whole_table),
    }
}
