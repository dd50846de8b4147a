import { expect, onTestFinished, test, vi } from "vitest";
import { startTracing } from "../../../src/app/tracing-sdk.ts";
import { createTracedJobs, tracedQueue } from "../../../src/app/traced.ts";
import { createLogger } from "../../../src/log.ts";
import type { ReconcileRequest, Request } from "../../../src/model.ts";
import { noTracing, traceparent } from "../../../src/log/tracing.ts";
import { useOtlpReceiver } from "../../support/otlp-receiver.ts";

function aLog() {
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", destination: { write: (line) => void lines.push(line) } });
  return { log, messages: () => lines.map((line) => (JSON.parse(line) as { msg: string }).msg) };
}

const request: ReconcileRequest = { kind: "reconcile", deployment: { namespace: "shop", name: "prod" }, cause: "push" };

test("tracing is off unless OpenTelemetry's variables switch it on, and then its SDK is not loaded", async () => {
  const { log, messages } = aLog();
  const load = () => Promise.reject(new Error("loaded"));
  for (const env of [
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", OTEL_SDK_DISABLED: "true" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", OTEL_TRACES_EXPORTER: "none" },
  ]) {
    expect((await startTracing(env, { version: "1", log, load })).tracing).toBe(noTracing);
  }
  expect(messages()).toEqual([]);
});

test("a missing tracing SDK is reported with what to install, and the server starts", async () => {
  const { log, messages } = aLog();
  const load = () => Promise.reject(Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" }));
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
  expect((await startTracing(env, { version: "1", log, load })).tracing).toBe(noTracing);
  expect(messages()[0]).toContain("install @opentelemetry/sdk-trace");
});

test("the work for one delivery is one trace, across the queue and retries", async () => {
  const receiver = await useOtlpReceiver();
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { tracing, stop } = await startTracing(process.env, { version: "1", log: aLog().log });
  onTestFinished(stop);

  const queued: Request[] = [];
  const queue = tracedQueue(
    {
      enqueue(requests: readonly Request[]) {
        queued.push(...requests);
        return Promise.resolve({ queued: requests.length });
      },
    },
    tracing,
  );
  await tracing.inSpan("receive", { forge: "github" }, () => queue.enqueue([request]));
  const carried = queued[0] as ReconcileRequest;
  expect(carried.trace).toMatch(traceparent);

  const jobs = createTracedJobs<ReconcileRequest>("reconcile", tracing);
  jobs.waited(carried, 2);
  const attempt = { attempt: 1, lastAttempt: false, signal: new AbortController().signal };
  await jobs.work(carried, attempt, async () => {
    const failing = tracing.inSpan("diff", {}, () => Promise.reject(new Error("a secret of somebody's")));
    await expect(failing).rejects.toThrow();
    return { kind: "failed", retry: "person", message: "a secret of somebody's" };
  });
  await stop();

  const { spans } = receiver;
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  expect(spans.map(({ name }) => name).toSorted()).toEqual(["diff", "enqueue", "queue wait", "receive", "reconcile"]);
  const of = (name: string) => spans.find((span) => span.name === name);
  expect(of("reconcile")?.parentSpanId).toBe(of("enqueue")?.spanId);
  expect(of("diff")?.parentSpanId).toBe(of("reconcile")?.spanId);
  expect([of("diff")?.status.code, of("receive")?.status.code]).toEqual([2, 0]);
  expect(JSON.stringify(spans)).not.toContain("secret");
});

test("without tracing, requests are passed through unchanged", async () => {
  const queued: Request[] = [];
  const enqueue = (requests: readonly Request[]) => Promise.resolve({ queued: queued.push(...requests) });
  await tracedQueue({ enqueue }, noTracing).enqueue([request]);
  expect(queued).toEqual([request]);
  expect(queued[0]).toBe(request);
});
