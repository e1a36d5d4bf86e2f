//! How a source's locators are read from a table's rows, worked out once a session and table.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::pg_sys;

use crate::domain::template::{Owns, Template};
use crate::error::{Error, Result};
use crate::pg::relation::Relation;
use crate::pg::user::ActingAs;
use crate::pg::value::Format;
use crate::pg::watch;
use crate::store::source::{self, Captured, Kind};

use super::fence;
use super::locator::{Extras, Field, Locator, RowIdColumns};

/// What capture needs to know of a source on one table.
pub struct Plan {
    pub source_id: i32,
    pub backend_id: Option<i32>,
    pub grace_us: i64,
    pub on_update: bool,
    pub forbid_truncate: bool,
    pub locator: Locator,
    /// What expressions call the table.
    pub alias: String,
    pub row_id: RowIdColumns,
    pub extras: Extras,
    /// The highest number of a column that `locator` or `row_id` reads.
    pub last_column: i16,
}

type Plans = HashMap<(pg_sys::Oid, i32), Rc<Plan>>;

thread_local! {
    static PLANS: RefCell<Plans> = RefCell::new(HashMap::new());
}

/// The plan for `source` on `relation`; `None` when the source is no longer attached.
pub fn find(relation: &Relation<'_>, source: i32) -> Result<Option<Rc<Plan>>> {
    forget_what_changed();
    let key = (relation.oid(), source);
    if let Some(known) = PLANS.with_borrow(|plans| plans.get(&key).cloned()) {
        return Ok(Some(known));
    }
    // That there is none is not remembered: nothing would tell when there is.
    let Some(plan) = load(relation, source)?.map(Rc::new) else { return Ok(None) };
    PLANS.with_borrow_mut(|plans| plans.insert(key, Rc::clone(&plan)));
    Ok(Some(plan))
}

/// What is known of tables that changed is out of date, here and for the fence.
pub fn forget_what_changed() {
    let changed = watch::take_changes();
    match changed.as_deref() {
        Some([]) => return,
        Some(changed) => PLANS.with_borrow_mut(|plans| plans.retain(|(relation, _), _| !changed.contains(relation))),
        None => PLANS.with_borrow_mut(HashMap::clear),
    }
    fence::forget(changed.as_deref());
}

fn load(relation: &Relation<'_>, source: i32) -> Result<Option<Plan>> {
    let captured = {
        let _rights = ActingAs::extension();
        source::captured(source, relation.oid())?
    };
    let Some(captured) = captured else { return Ok(None) };
    let locator = locator(&captured, relation)?;
    let fields: Vec<_> = captured.key.iter().filter_map(|&number| Field::of(relation, number)).collect();
    let row_id = RowIdColumns::of(fields);
    // Where SQL reads the locators, it reads these too.
    let extras = match locator {
        Locator::Query(_) => Extras::default(),
        _ => extras(&captured, relation).unwrap_or_default(),
    };
    Ok(Some(Plan {
        source_id: source,
        backend_id: captured.backend_id,
        grace_us: captured.grace_us,
        on_update: captured.on_update,
        forbid_truncate: captured.forbid_truncate,
        last_column: locator
            .fields()
            .iter()
            .chain(row_id.fields())
            .chain(extras.fields())
            .map(|field| field.number)
            .max()
            .unwrap_or(0),
        locator,
        row_id,
        extras,
        alias: captured.alias,
    }))
}

/// How the rows of a source name objects on one table, for the fence.
pub struct Naming {
    pub locator: Locator,
    pub alias: String,
    /// The column holds ids of rows that these sources capture.
    pub row_of: Option<Vec<i32>>,
    /// Where plain keys go.
    pub backend_id: Option<i32>,
    pub extras: Extras,
}

/// How a writer's rows are read for the fence: as the reference check reads them.
pub fn naming(relation: &Relation<'_>, source: i32) -> Result<Option<Naming>> {
    let captured = {
        let _rights = ActingAs::extension();
        source::captured(source, relation.oid())?
    };
    let Some(mut captured) = captured else { return Ok(None) };
    if captured.captures {
        // A row that owns no object any more may still name it.
        captured.filter = None;
    }
    if captured.kind == Kind::JsonPath {
        // Every string of the document protects.
        captured.kind = Kind::Strings;
        captured.locator = None;
    }
    let locator = locator(&captured, relation)?;
    let extras = extras(&captured, relation).unwrap_or_default();
    Ok(Some(Naming {
        locator,
        extras,
        alias: captured.alias,
        row_of: captured.row_of,
        backend_id: captured.backend_id,
    }))
}

fn locator(captured: &Captured, relation: &Relation<'_>) -> Result<Locator> {
    match native(captured, relation) {
        Some(locator) => Ok(locator),
        None => Ok(Locator::Query(captured.locators_sql().ok_or_else(|| Error::Stored {
            what: "source",
            detail: "Its locator cannot be written as a query.".to_owned(),
        })?)),
    }
}

/// Plain columns, arrays of text and templates without a filter are read without SQL.
fn native(captured: &Captured, relation: &Relation<'_>) -> Option<Locator> {
    if captured.filter.is_some() {
        return None;
    }
    let (of_locator, _) = captured.spec().shares_of_columns()?;
    // What is not plain is read by SQL, all of it.
    extras(captured, relation)?;
    let mut fields = fields(captured, relation)?;
    fields.truncate(of_locator);
    // Other types differ as a cast to text and as the type's own output, or by settings: SQL reads them, here and in
    // the guard.
    let is_plain = fields.iter().all(|field| field.format.is_plain());
    match captured.kind {
        Kind::Column | Kind::RowIds if is_plain => fields.into_iter().next().map(Locator::Column),
        Kind::Array => {
            fields.into_iter().next().filter(|field| matches!(field.format, Format::TextArray)).map(Locator::Column)
        }
        Kind::Template if is_plain => {
            let template = Template::parse(captured.locator.as_deref()?).ok()?;
            Some(Locator::Template(template, fields))
        }
        _ => None,
    }
}

fn fields(captured: &Captured, relation: &Relation<'_>) -> Option<Vec<Field>> {
    captured.attnums.iter().map(|number| number.and_then(|number| Field::of(relation, number))).collect()
}

/// What goes with each locator; `None` when it cannot be read without SQL.
fn extras(captured: &Captured, relation: &Relation<'_>) -> Option<Extras> {
    let (of_locator, of_owns) = captured.spec().shares_of_columns()?;
    let others = fields(captured, relation)?.split_off(of_locator);
    if !others.iter().all(|field| field.format.is_plain()) {
        return None;
    }
    let owns = match captured.owns.as_deref().map(Owns::parse).transpose().ok()? {
        Some(Owns::Within(prefix)) => Some((prefix, others.get(..of_owns)?.to_vec())),
        Some(Owns::Anything) | None => None,
    };
    let shares = if captured.is_shared { Some(*others.get(of_owns)?) } else { None };
    Some(Extras { owns, shares })
}
