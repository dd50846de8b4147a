#!/usr/bin/env node
/** The command `towline`. */
import { text } from "node:stream/consumers";
import { createPerson } from "./cli/person.ts";
import { runProgram } from "./cli/program.ts";
import { useProxies } from "./cli/proxies.ts";

// A reader that has seen enough (`towline config print | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

useProxies(process.env);
const person = createPerson(process.stdin, (words) => void process.stderr.write(words));

process.exitCode = await runProgram(process.argv.slice(2), {
  env: process.env,
  // Only the server needs the whole house; `--help` does not wait for it.
  serve: async (config, log, reading) => {
    const { serve } = await import("./cli/serve.ts");
    return serve(config, log, async (...args) => (await import("./app.ts")).startApp(...args, reading));
  },
  doctor: async (options) => (await import("./app/doctor.ts")).runDoctor(options),
  stdin: () => {
    if (process.stdin.isTTY) process.stderr.write("reading what is typed here; Ctrl-D ends it\n");
    return text(process.stdin);
  },
  ask: process.stdin.isTTY && process.stderr.isTTY ? (question) => person.ask(question) : undefined,
  columns: process.stdout.isTTY ? process.stdout.columns : undefined,
  out: (words) => void process.stdout.write(words),
  err: (words) => void process.stderr.write(words),
});
person.close();
