//! Tests that run inside a server, each in a transaction that is rolled back: what the SQL functions and the native
//! capture do to the outbox. What needs commits, the worker or a store is in the scenario crate.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    const TABLE: &str = "CREATE TABLE public.image (id bigint PRIMARY KEY, url text);
        INSERT INTO public.image SELECT n, 'k/' || n FROM generate_series(1, 2500) n;
        CREATE INDEX ON public.image (storage_reaper.fingerprint(url));
        SELECT storage_reaper.create_backend('media', 'generic', 'https://s3.example.test', 'media');
        SELECT storage_reaper.attach('public.image', 'url', backend => 'media');";

    fn run(statements: &str) {
        Spi::run(statements).expect("the statements run");
    }

    fn number(query: &str) -> i64 {
        Spi::get_one(query).expect("the query runs").expect("the query answers")
    }

    fn text(query: &str) -> String {
        Spi::get_one(query).expect("the query runs").expect("the query answers")
    }

    #[pg_test]
    fn a_statement_writes_a_segment_a_thousand_rows() {
        run(TABLE);
        run("DELETE FROM public.image");
        assert_eq!(number("SELECT count(*) FROM storage_reaper.entry"), 3);
        assert_eq!(number("SELECT count(DISTINCT locator) FROM storage_reaper.queue"), 2500);
        assert_eq!(text("SELECT row_id FROM storage_reaper.queue WHERE locator = 'k/77'"), "77");
    }

    #[pg_test]
    fn a_statement_without_rows_writes_nothing() {
        run(TABLE);
        run("DELETE FROM public.image WHERE id < 0; UPDATE public.image SET id = id WHERE id < 9");
        assert_eq!(number("SELECT count(*) FROM storage_reaper.entry"), 0);
    }

    #[pg_test]
    fn an_attached_table_is_altered_by_attaching_again() {
        run(TABLE);
        run("SELECT storage_reaper.attach('public.image', 'url', backend => 'media', on_update => 'ignore')");
        run("UPDATE public.image SET url = NULL");
        assert_eq!(number("SELECT count(*) FROM storage_reaper.entry"), 0);
        assert_eq!(number("SELECT count(*) FROM storage_reaper.sources"), 1);
    }

    #[pg_test]
    fn cancelled_objects_leave_their_segment_and_no_other() {
        run(TABLE);
        run("SELECT storage_reaper.attach('public.image', 'url', backend => 'media', grace => '1 hour')");
        run("DELETE FROM public.image WHERE id <= 3");
        assert_eq!(number("SELECT storage_reaper.cancel(ARRAY['k/2'])"), 1);
        assert_eq!(text("SELECT string_agg(locator, ' ' ORDER BY locator) FROM storage_reaper.queue"), "k/1 k/3");
        assert_eq!(text("SELECT outcome || ' ' || locator FROM storage_reaper.history"), "cancelled k/2");
    }

    #[pg_test(error = "cannot truncate table \"image\" because its rows own objects")]
    fn a_forbidden_truncate_is_refused() {
        run(TABLE);
        run("SELECT storage_reaper.attach('public.image', 'url', backend => 'media', on_truncate => 'forbid')");
        run("TRUNCATE public.image");
    }

    #[pg_test(error = "damaged segment in the outbox or history: it has an unknown version")]
    fn a_damaged_segment_is_an_error_and_not_an_empty_one() {
        run("SELECT * FROM storage_reaper.unpack('\\x09')");
    }
}
