import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { expect, onTestFinished, test, vi } from "vitest";
import type { PageLogLine } from "../../../src/web/facts.ts";
import { createPageLog, type PageLogDeps } from "../../../src/web/log.ts";
import { keyText } from "../../../src/model.ts";
import { patience } from "../../support/patience.ts";

const aLine = (text: string): PageLogLine => ({ at: 1, job: "one", command: "deploy", text });

test("a listener gets the existing and the new lines of its deployment, and without listeners Redis is not asked", async () => {
  const { said, listen, asked, log } = await useLog();
  said.set("shop/prod", [aLine("first")]);
  const prod = await listen("prod");
  const staging = await listen("staging");
  await vi.waitFor(() => expect(prod.texts()).toEqual(["first"]), patience);
  await vi.waitFor(() => expect(staging.batches()).toEqual([[]]), patience);
  said.get("shop/prod")?.push(aLine("<b>second</b>\n\nevent: lines"));
  await vi.waitFor(() => expect(prod.texts()).toEqual(["first", "<b>second</b>\n\nevent: lines"]), patience);
  const late = await listen("prod");
  await vi.waitFor(() => expect(late.texts()).toHaveLength(2), patience);
  expect(staging.texts()).toEqual([]);
  await Promise.all([prod.cancel(), staging.cancel(), late.cancel()]);
  await vi.waitFor(async () => {
    const before = asked();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(asked()).toBe(before);
  }, patience);
  log.stop();
});

test("remembered lines are sent when Redis is available again", async () => {
  const { said, listen, fail } = await useLog();
  fail(true);
  const heard = await listen("prod");
  said.set("shop/prod", [aLine("first")]);
  await vi.waitFor(() => expect(heard.text()).toContain("event: open"), patience);
  fail(false);
  await vi.waitFor(() => expect(heard.texts()).toEqual(["first"]), patience);
});

test("listeners have a limit, and end with their access and with the server", async () => {
  const { listen, log, open } = await useLog({ mostClients: 1 });
  const late = await listen("staging", Date.now() - 1);
  await vi.waitFor(() => expect(late.ended()).toBe(true), patience);
  const heard = await listen("prod");
  expect((await open("prod", Date.now() + 60_000)).status).toBe(503);
  log.stop();
  await vi.waitFor(() => expect(heard.ended()).toBe(true), patience);
  expect((await open("prod", Date.now() + 60_000)).status).toBe(503);
});

async function useLog(deps: Partial<PageLogDeps> = {}) {
  const said = new Map<string, PageLogLine[]>();
  let [questions, failing] = [0, false];
  const log = createPageLog({
    read(wanted) {
      questions++;
      if (failing) return Promise.reject(new Error("no Redis"));
      const answers = wanted.map(({ key, last }) => {
        const all = said.get(keyText(key)) ?? [];
        return { lines: all.slice(Number(last)), last: String(all.length) };
      });
      return Promise.resolve(answers);
    },
    everyMs: 5,
    aliveMs: 20,
    ...deps,
  });
  const app = express().get("/:name/:until", (req, res) => {
    const key = { namespace: "shop", name: req.params.name };
    if (!log.open(res, key, Number(req.params.until))) res.status(503).end();
  });
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    log.stop();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const open = (name: string, until: number) => fetch(`http://127.0.0.1:${port}/${name}/${until}`);
  return {
    said,
    log,
    open,
    asked: () => questions,
    fail: (is: boolean) => void (failing = is),
    async listen(name: string, until = Date.now() + 600_000) {
      const reader = (await open(name, until)).body?.pipeThrough(new TextDecoderStream()).getReader();
      let [text, ended] = ["", false];
      void (async () => {
        for (;;) {
          const { done, value } = (await reader?.read()) ?? { done: true, value: "" };
          text += value ?? "";
          if (done) break;
        }
        ended = true;
      })().catch(() => (ended = true));
      const batches = () =>
        [...text.matchAll(/^event: lines\ndata: (.*)$/gm)].map(([, json = ""]) => JSON.parse(json) as PageLogLine[]);
      return {
        text: () => text,
        ended: () => ended,
        batches,
        texts: () =>
          batches()
            .flat()
            .map((line) => line.text),
        cancel: async () => {
          await reader?.cancel();
        },
      };
    },
  };
}
