// Node's own kinds of work: threads, children with a channel, servers, watching, timers.
const { Worker, isMainThread, parentPort } = require("worker_threads");
const child = require("child_process");
const fs = require("fs");
const http = require("http");
const net = require("net");
const path = require("path");

async function main() {
  const worker = new Worker(__filename);
  console.log(await new Promise((done) => worker.once("message", done)));
  await worker.terminate();

  const forked = child.fork(__filename, ["child"]);
  forked.send("ping");
  console.log(await new Promise((done) => forked.once("message", done)));
  await new Promise((done) => forked.once("exit", done));

  console.log(child.execSync("cat", { input: "piped" }).toString());
  console.log(child.spawnSync("sh", ["-c", "echo shell; exit 3"]).status);

  const server = http.createServer((_, answer) => answer.end("served"));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const answer = await fetch(`http://localhost:${server.address().port}/`).catch(() =>
    fetch(`http://127.0.0.1:${server.address().port}/`));
  console.log(await answer.text());
  server.closeAllConnections();
  server.close();

  for (const place of ["inside.sock", path.join(require("os").tmpdir(), "inside.sock")]) {
    const unix = net.createServer((socket) => socket.end("unix"));
    await new Promise((done) => unix.listen(place, done));
    const client = net.connect(place);
    console.log(await new Promise((done) => client.once("data", (data) => done(data.toString()))));
    unix.close();
  }

  const seen = new Promise((done) => {
    const watcher = fs.watch(".", (_, name) => {
      if (name === "watched.txt") {
        watcher.close();
        done(`saw ${name}`);
      }
    });
  });
  fs.writeFileSync("watched.txt", "");
  console.log(await seen);

  fs.mkdirSync("made/deep", { recursive: true });
  fs.cpSync("made", "copied", { recursive: true });
  fs.renameSync("copied", "made/moved");
  fs.symlinkSync("deep", "made/link");
  fs.rmSync(fs.mkdtempSync("/tmp/x-"), { recursive: true });
  console.log("done", process.stdout.isTTY === undefined, require("os").cpus().length > 0);
}

if (!isMainThread) parentPort.postMessage("thread");
else if (process.argv[2] === "child") process.once("message", (said) => process.send(said === "ping" ? "pong" : said, () => process.exit()));
else main().catch((error) => { console.error(error); process.exit(1); });
