CREATE FUNCTION storage_reaper.strings(document jsonb) RETURNS text[]
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'storage_reaper_strings';
CREATE FUNCTION storage_reaper.strings(document jsonb, member text) RETURNS text[]
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'storage_reaper_strings';
