// What the npm package ksqldb-client sees of a server: node ksqldb_client.js PORT STREAM, with the package in NODE_PATH.
const KsqldbClient = require("ksqldb-client");

async function main() {
  const [port, stream] = process.argv.slice(2);
  const client = new KsqldbClient({ host: "http://127.0.0.1", port: Number(port) });
  const seen = {};
  await client.connect();
  seen.inserted = [];
  for (const id of [1, 2]) {
    seen.inserted.push((await client.insertInto(stream, { ID: id, NAME: `n${id}` })).status);
  }
  seen.described = await client.describeSource(stream);
  seen.streams = await client.listStreams();
  seen.pulled = (await client.query(`SELECT * FROM ${stream};`)).data;
  seen.pushed = [];
  const properties = { properties: { "auto.offset.reset": "earliest" } };
  const ended = client.streamQuery(
    `SELECT name FROM ${stream} EMIT CHANGES;`,
    async ({ metadata, rows }) => {
      seen.pushed.push(...(rows || []));
      if (seen.pushed.length === 2 && !seen.terminated) {
        seen.terminated = (await client.terminatePushQuery(metadata.queryId)).status;
      }
    },
    properties,
  );
  seen.ended = (await ended).status;
  seen.wrong = await client.query("SELECT * FROM nothing_there;");
  seen.refused = await client.executeStatement("CREATE STREEM x;");
  await client.disconnect();
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
