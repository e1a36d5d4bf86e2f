//! The SQL forms of a locator: for what is not read natively, for the guard, and for the index that answers it.

use pgrx::spi::{quote_identifier, quote_literal};

use crate::domain::template::{Owns, Part, Template};

use super::source::Kind;

/// Rows that share a fingerprint and are looked at: almost always they hold the same text. If that many do not name the
/// object, those beyond count as if they did.
pub const SPELLINGS: usize = 8;

/// Fingerprints that are asked for together: an index takes longer for each of many more.
pub const LOT: usize = 64;
/// Rows that are read for them.
pub const MOST_OF_LOT: usize = LOT * SPELLINGS;

/// What a JSON path yields beside scalars is no locator, and would be found by none.
const SCALARS: &str = r#"? (@.type() == "string" || @.type() == "number" || @.type() == "boolean")"#;

/// Types of keys whose text means one value, whatever the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    Integer,
    Uuid,
    Text,
    /// character(n), whose blanks at the end do not count.
    Padded,
    Bytes,
}

impl KeyType {
    /// From the name of a column's type; the text of dates depends on settings.
    pub fn of(type_name: &str) -> Option<Self> {
        match type_name {
            "smallint" | "integer" | "bigint" => Some(Self::Integer),
            "uuid" => Some(Self::Uuid),
            "text" | "character varying" => Some(Self::Text),
            "character" => Some(Self::Padded),
            "bytea" => Some(Self::Bytes),
            _ => None,
        }
    }

    /// The type that holds all values, so that none is out of range.
    fn widest(self) -> &'static str {
        match self {
            Self::Integer => "bigint",
            Self::Uuid => "uuid",
            Self::Text => "text",
            Self::Padded => "pg_catalog.bpchar",
            Self::Bytes => "bytea",
        }
    }
}

/// What yields the locators of a row, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatorSql {
    locators: Locators,
    /// A select list item for capture; differs from `locators` for a JSON path, where the guard asks all strings.
    item: String,
    row_id: String,
    owns: String,
    shares: String,
    /// The column by whose value rows share objects.
    shared_by: Option<String>,
    filter: Option<String>,
}

/// A source's settings, as they are written down.
pub struct Spec<'a> {
    pub kind: Kind,
    /// The table's name inside of queries.
    pub alias: &'a str,
    /// The present names of the columns: the locator's, those of `owns`, the one that rows share objects by.
    pub columns: &'a [String],
    pub locator: Option<&'a str>,
    pub owns: Option<&'a str>,
    pub is_shared: bool,
    pub filter: Option<&'a str>,
    /// The primary key.
    pub key: &'a [String],
}

impl Spec<'_> {
    /// How many of the columns are the locator's, and how many the prefix's.
    pub fn shares_of_columns(&self) -> Option<(usize, usize)> {
        let locator = match self.kind {
            Kind::Template => Template::parse(self.locator?).ok()?.columns().len(),
            Kind::Expression | Kind::ArrayExpression => 0,
            _ => 1,
        };
        let owns = self.owns.map_or(Some(0), |text| Owns::parse(text).ok().map(|owns| owns.columns().len()))?;
        Some((locator, owns))
    }
}

/// An SQL expression over one row.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Locators {
    /// Of type text.
    One(String),
    /// Of type text[].
    Many(String),
}

impl LocatorSql {
    /// From a source's settings.
    pub fn new(spec: &Spec<'_>) -> Option<Self> {
        let Spec { kind, alias, locator, filter, key, .. } = *spec;
        let (of_locator, of_owns) = spec.shares_of_columns()?;
        let (columns, others) = spec.columns.split_at_checked(of_locator)?;
        let (own_columns, others) = others.split_at_checked(of_owns)?;
        let qualify = |column: &String| format!("{}.{}", quote_identifier(alias), quote_identifier(column));
        let locators = match kind {
            Kind::Column => Locators::One(format!("{}::text", qualify(columns.first()?))),
            Kind::Array => Locators::Many(format!("{}::text[]", qualify(columns.first()?))),
            Kind::JsonPath => Locators::Many(format!("storage_reaper.strings({}::jsonb)", qualify(columns.first()?))),
            Kind::Template => Locators::One(template(Template::parse(locator?).ok()?.parts(), columns, &qualify)?),
            Kind::Expression => Locators::One(format!("({})::text", locator?)),
            Kind::ArrayExpression => Locators::Many(format!("({})::text[]", locator?)),
            Kind::Strings => {
                let document = format!("{}::jsonb", qualify(columns.first()?));
                Locators::Many(match locator {
                    Some(member) => format!("storage_reaper.strings({document}, {})", quote_literal(member)),
                    None => format!("storage_reaper.strings({document})"),
                })
            }
            Kind::Urls => Locators::Many(format!("storage_reaper.urls({}::text)", qualify(columns.first()?))),
            Kind::RowIds => Locators::One(format!("{}::text", qualify(columns.first()?))),
        };
        let item = match (&locators, kind) {
            (_, Kind::JsonPath) => format!(
                "pg_catalog.unnest(ARRAY(SELECT DISTINCT (storage_reaper_value.found #>> '{{}}') COLLATE \"C\" \
                 FROM pg_catalog.jsonb_path_query({}::jsonb, {}::jsonpath) AS storage_reaper_value (found)))",
                qualify(columns.first()?),
                quote_literal(format!("{} {SCALARS}", locator?))
            ),
            (Locators::One(text), _) => text.clone(),
            // What stands in a row twice is one object.
            (Locators::Many(texts), _) => format!(
                "pg_catalog.unnest(ARRAY(SELECT DISTINCT storage_reaper_value.found COLLATE \"C\" \
                 FROM pg_catalog.unnest({texts}) AS storage_reaper_value (found)))"
            ),
        };
        let row_id = match key {
            [] => "NULL::text".to_owned(),
            columns => {
                let texts: Vec<_> = columns.iter().map(|column| format!("{}::text", qualify(column))).collect();
                texts.join(" || ',' || ")
            }
        };
        let owns = match spec.owns.map(Owns::parse).transpose().ok()? {
            // A NULL in it owns nothing.
            Some(Owns::Within(prefix)) => {
                // Nor does a value with a slash, which would reach into another row's prefix.
                let part = |column: &String| {
                    let text = format!("{}::text", qualify(column));
                    format!("CASE WHEN pg_catalog.strpos({text}, '/') = 0 THEN {text} END")
                };
                format!("coalesce({}, '')", template(prefix.parts(), own_columns, &part)?)
            }
            Some(Owns::Anything) | None => "NULL::text".to_owned(),
        };
        let shared_by = if spec.is_shared { Some(qualify(others.first()?)) } else { None };
        let shares = shared_by
            .as_ref()
            .map_or_else(|| "NULL::text".to_owned(), |column| format!("coalesce({column}::text, '')"));
        Some(Self { locators, item, row_id, owns, shares, shared_by, filter: filter.map(str::to_owned) })
    }

    /// A query of locator, row id, prefix and shared value over `from`, a qualified table or a transition table with its alias.
    pub fn over(&self, from: &str) -> String {
        let filter = self.filter.as_ref().map(|filter| format!(" WHERE ({filter})")).unwrap_or_default();
        format!("SELECT {}, {}, {}, {} FROM {from}{filter}", self.item, self.row_id, self.owns, self.shares)
    }

    /// A query of fingerprint, locator and row id over `from`, for the fingerprints in `prints` (SQL of type bigint[]).
    pub fn sharing(&self, prints: &str, from: &str) -> String {
        let (filter, row_id) = (self.and_filter(), &self.row_id);
        let found = match &self.locators {
            Locators::One(text) => format!(
                "SELECT {text} AS locator, {row_id} AS row_id FROM {from} \
                 WHERE storage_reaper.fingerprint({text}) = storage_reaper_asked.print{filter}"
            ),
            Locators::Many(texts) => format!(
                "SELECT storage_reaper_found.text AS locator, {row_id} AS row_id FROM {from} \
                 CROSS JOIN LATERAL pg_catalog.unnest({texts}) AS storage_reaper_found (text) \
                 WHERE storage_reaper.fingerprints({texts}) && ARRAY[storage_reaper_asked.print] \
                 AND storage_reaper.fingerprint(storage_reaper_found.text) = storage_reaper_asked.print{filter}"
            ),
        };
        format!(
            "SELECT storage_reaper_asked.print, f.locator, f.row_id \
             FROM pg_catalog.unnest({prints}) AS storage_reaper_asked (print) \
             CROSS JOIN LATERAL ({found} LIMIT {SPELLINGS}) f"
        )
    }

    /// The same for many fingerprints, asked a lot at a time, which takes the index half as long. Of each lot, `MOST_OF_LOT`
    /// rows at most: those of a lot that has so many have to be asked for one by one.
    pub fn sharing_in_lots(&self, prints: &str, from: &str) -> String {
        let (filter, row_id) = (self.and_filter(), &self.row_id);
        let lot = format!("({prints})[storage_reaper_asked.place : storage_reaper_asked.place + {}]", LOT - 1);
        let found = match &self.locators {
            Locators::One(text) => format!(
                "SELECT storage_reaper.fingerprint({text}) AS print, {text} AS locator, {row_id} AS row_id FROM {from} \
                 WHERE storage_reaper.fingerprint({text}) = ANY ({lot}){filter}"
            ),
            Locators::Many(texts) => format!(
                "SELECT storage_reaper_found.print, storage_reaper_found.text AS locator, {row_id} AS row_id FROM {from} \
                 CROSS JOIN LATERAL (SELECT storage_reaper.fingerprint(storage_reaper_text.text) AS print, storage_reaper_text.text \
                 FROM pg_catalog.unnest({texts}) AS storage_reaper_text (text)) storage_reaper_found \
                 WHERE storage_reaper.fingerprints({texts}) && {lot} AND storage_reaper_found.print = ANY ({lot}){filter}"
            ),
        };
        format!(
            "SELECT f.print, f.locator, f.row_id \
             FROM pg_catalog.generate_series(1, pg_catalog.cardinality({prints}), {LOT}) AS storage_reaper_asked (place) \
             CROSS JOIN LATERAL ({found} LIMIT {MOST_OF_LOT}) f"
        )
    }

    /// A query of those of the row ids in `ids` (SQL of type text[]) that a row of `from` holds: in a column of type `key`,
    /// or as one of its strings, however they are spelled.
    pub fn holding(&self, ids: &str, key: Option<KeyType>, from: &str) -> Option<String> {
        let filter = self.and_filter();
        match &self.locators {
            Locators::One(text) => Some(held(ids, key?, text.strip_suffix("::text")?, from, &filter)),
            Locators::Many(texts) => {
                let print = "ARRAY[storage_reaper.fingerprint(storage_reaper_asked.id)]";
                Some(asked_for(ids, &format!("storage_reaper.fingerprints({texts}) && {print}"), from, &filter))
            }
        }
    }

    /// A query of those of the values in `values` (SQL of type text[]) that some row of `from` shares.
    pub fn sharing_value(&self, values: &str, key: KeyType, from: &str) -> Option<String> {
        Some(held(values, key, self.shared_by.as_ref()?, from, ""))
    }

    fn and_filter(&self) -> String {
        self.filter.as_ref().map(|filter| format!(" AND ({filter})")).unwrap_or_default()
    }

    /// What the index has to be on.
    pub fn index(&self) -> String {
        match &self.locators {
            Locators::One(text) => format!("(storage_reaper.fingerprint({text}))"),
            Locators::Many(texts) => format!("USING gin (storage_reaper.fingerprints({texts}))"),
        }
    }
}

/// A query of those of the row ids in `ids` that are keys of rows of `table`.
pub fn living(ids: &str, key: KeyType, column: &str, table: &str) -> String {
    held(
        ids,
        key,
        &format!("storage_reaper_row.{}", quote_identifier(column)),
        &format!("{table} AS storage_reaper_row"),
        "",
    )
}

fn held(ids: &str, key: KeyType, column: &str, from: &str, filter: &str) -> String {
    asked_for(ids, &format!("{column} = storage_reaper_asked.id::{}", key.widest()), from, filter)
}

fn asked_for(ids: &str, condition: &str, from: &str, filter: &str) -> String {
    format!(
        "SELECT 0::bigint AS print, storage_reaper_asked.id AS locator, NULL::text AS row_id \
         FROM pg_catalog.unnest({ids}) AS storage_reaper_asked (id) \
         WHERE EXISTS (SELECT FROM {from} WHERE {condition}{filter})"
    )
}

fn template(parts: &[Part], columns: &[String], part: &dyn Fn(&String) -> String) -> Option<String> {
    let mut columns = columns.iter();
    let mut texts = Vec::new();
    for piece in parts {
        texts.push(match piece {
            Part::Text(text) => quote_literal(text),
            Part::Column(_) => part(columns.next()?),
        });
    }
    Some(format!("({})", texts.join(" || ")))
}
