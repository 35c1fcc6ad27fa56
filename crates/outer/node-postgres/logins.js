// Logs in with node-postgres once for each line of standard input; lines and answers are those of ../python/logins.py.
'use strict';

const fs = require('node:fs');
const readline = require('node:readline');
const { Client } = require('pg');

async function logIn([host, port, user, database, password, sslmode, ca, cert, key]) {
  const read = (name) => (name === '' ? undefined : fs.readFileSync(name, 'utf8'));
  const ssl = sslmode === 'disable' ? false : { ca: read(ca), cert: read(cert), key: read(key) };
  const client = new Client({ host, port: Number(port), user, database, password, ssl, connectionTimeoutMillis: 120000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select 1');
    return 'ok';
  } catch (error) {
    return error.severity === undefined ? `-\t${error.message}` : `${error.code}\t${error.message}`;
  } finally {
    await client.end().catch(() => {});
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log((await logIn(line.split('\t'))).replaceAll('\n', ' '));
  }
})();
