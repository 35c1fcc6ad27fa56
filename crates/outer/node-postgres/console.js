// Reads the console in the ways of node-postgres; what it is called with and prints is that of ../python/console.py.
'use strict';

const { Client } = require('pg');

function tell(way, command, result) {
  for (const row of result.rows) {
    console.log([way, command, ...row.map((value) => (value === null ? '\\N' : String(value)))].join('\t'));
  }
}

(async () => {
  const [connectionString, ...commands] = process.argv.slice(2);
  const client = new Client({ connectionString });
  await client.connect();
  for (const text of commands) {
    tell('node-postgres', text, await client.query({ text, rowMode: 'array' }));
    tell('node-postgres prepared', text, await client.query({ name: text, text, rowMode: 'array' }));
    tell('node-postgres binary', text, await client.query({ name: `${text}, again`, text, rowMode: 'array', queryMode: 'extended' }));
  }
  await client.query('BEGIN');
  await client.query('COMMIT');
  const error = await client.query('show nonsense').then(() => undefined, (told) => told);
  if (error?.code !== '08P01') {
    throw new Error(`a command that is none: ${error}`);
  }
  await client.end();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
