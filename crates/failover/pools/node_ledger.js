// The ledger's clients as tasks of an application that share node-postgres's Pool. ../README.md describes what is printed.

'use strict';

const { Pool } = require('pg');

const CALL =
  'with entry as (insert into ledger values ($1::bigint, $2::int) returning client) ' +
  'update accounts set entries = entries + 1 from entry where accounts.client = entry.client';
const UNKNOWN = '08007';

let closing = false;
const say = (event, client, more = '') => process.stdout.write(`${event} ${client} ${more}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const codeOf = (error) => error.code || 'closed';
// A FATAL error, or none of the server's: the driver has lost the connection.
const hasEnded = (error) => error.severity !== 'ERROR';

class Client {
  constructor(pool, number) {
    Object.assign(this, { pool, number, next: 0, kind: ['block', 'call', 'idle'][number % 3] });
  }

  async live() {
    if (this.kind === 'idle') return this.rest();
    while (!closing) {
      const connection = await this.take();
      if (!connection) continue;
      await (this.kind === 'block' ? this.block(connection) : this.lone(connection));
      await this.pause(150 + Math.random() * 300);
    }
  }

  // Its connection is not given back until the end.
  async rest() {
    let connection;
    while (!connection && !closing) {
      connection = await this.take();
      const error = connection && (await this.call(connection));
      if (error) {
        this.giveBack(connection, error);
        connection = undefined;
      }
    }
    while (!closing) await sleep(20);
    if (connection && (await this.call(connection))) say('idle-lost', this.number);
  }

  async pause(ms) {
    for (let waited = 0; waited < ms && !closing; waited += 20) await sleep(20);
  }

  async take() {
    try {
      return await this.pool.connect();
    } catch (error) {
      say('refused', this.number, codeOf(error));
      await sleep(100);
      return undefined;
    }
  }

  // With an error, the pool throws the connection away.
  giveBack(connection, error) {
    if (error && !hasEnded(error)) connection.thrownAwayFor = [this.number, codeOf(error)];
    connection.release(error);
  }

  // As Pool.query() does it, but a pool without a connection is told apart.
  async lone(connection) {
    this.giveBack(connection, await this.call(connection));
  }

  begin() {
    const id = this.number * 1_000_000 + this.next++;
    say('sends', this.number, id);
    return id;
  }

  drop(error) {
    if (hasEnded(error)) say('dropped', this.number, codeOf(error));
  }

  // As node-postgres's manual shows transactions: the connection is given back without the error.
  async block(connection) {
    const id = this.begin();
    let [first, commits] = [true, false];
    try {
      await connection.query('begin');
      first = false;
      await connection.query('insert into ledger values ($1, $2)', [id, this.number]);
      await sleep(50);
      await connection.query('update accounts set entries = entries + 1 where client = $1', [this.number]);
      commits = true;
      say('commits', this.number);
      const { command } = await connection.query('commit');
      if (command === 'COMMIT') say('committed', this.number);
      else say('failed', this.number, command);
    } catch (error) {
      const code = codeOf(error);
      if (commits && (hasEnded(error) || code === UNKNOWN)) say('unknown', this.number, code);
      else if (hasEnded(error)) say('ended', this.number, code);
      else say(first ? 'failed-first' : 'failed', this.number, code);
      this.drop(error);
      await connection.query('rollback').catch((again) => hasEnded(error) || this.drop(again));
    } finally {
      this.giveBack(connection);
    }
  }

  // The error, if it has failed.
  async call(connection) {
    const id = this.begin();
    try {
      const { rowCount } = await connection.query(CALL, [id, this.number]);
      if (rowCount === 1) say('committed', this.number);
      else say('failed-first', this.number, `rows-${rowCount}`);
      return undefined;
    } catch (error) {
      const code = codeOf(error);
      say(hasEnded(error) || code === UNKNOWN ? 'unknown' : 'failed-first', this.number, code);
      this.drop(error);
      return error;
    }
  }
}

async function main([host, port, user, database, clients]) {
  if (host === '--version') {
    console.log(`node-postgres ${require('pg/package.json').version}, Node ${process.version}`);
    return;
  }
  const pool = new Pool({ host, port: Number(port), user, database, max: Number(clients) });
  // An error that belongs to no query would end the process. A query that was under way has it, too.
  pool.on('connect', (connection) => connection.on('error', () => {}));
  pool.on('error', (error) => say('dropped', 0, codeOf(error)));
  pool.on('remove', ({ thrownAwayFor }) => thrownAwayFor && say('evicted', ...thrownAwayFor));
  const full = await Promise.all(Array.from({ length: Number(clients) }, () => pool.connect()));
  full.forEach((connection) => connection.release());
  const all = Array.from({ length: Number(clients) }, (_, number) => new Client(pool, number).live());
  process.stdin.once('data', async () => {
    closing = true;
    await Promise.all(all);
    process.exit(0);
  });
  // Without a line, the program that reads the output has ended.
  process.stdin.once('end', () => closing || process.exit(0));
}

main(process.argv.slice(2));
