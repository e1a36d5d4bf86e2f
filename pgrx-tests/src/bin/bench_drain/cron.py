"""The script that many run from cron: deletes the objects that a list names, unless a row still does.

One connection to the store, a thousand keys a request, and before each the question to PostgreSQL which of them are still
in use. Addresses and credentials come from the environment, as boto3 and libpq read them.
"""

import itertools
import sys

import boto3
import psycopg
from botocore.config import Config

STILL_NAMED = "SELECT url FROM plain WHERE url = ANY(%s)"


def main(bucket, endpoint, list_of_keys):
    store = boto3.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}))
    with psycopg.connect(autocommit=True) as database, open(list_of_keys, encoding="utf-8") as lines:
        keys = (line.rstrip("\n") for line in lines)
        while batch := list(itertools.islice(keys, 1000)):
            kept = {url for (url,) in database.execute(STILL_NAMED, [batch])}
            doomed = [{"Key": key} for key in batch if key not in kept]
            if not doomed:
                continue
            answer = store.delete_objects(Bucket=bucket, Delete={"Objects": doomed, "Quiet": True})
            if errors := answer.get("Errors"):
                sys.exit(f"{len(errors)} objects were not deleted, such as {errors[0]}")


main(*sys.argv[1:])
