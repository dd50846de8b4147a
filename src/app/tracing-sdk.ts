/**
 * Sets up OpenTelemetry's SDK if its standard variables are set. The SDK is loaded only then and need not be installed.
 */
import { context, diag, DiagLogLevel, trace } from "@opentelemetry/api";
import type { Logger } from "../log.ts";
import { createTracing, noTracing, type Tracing } from "../log/tracing.ts";

export interface StartedTracing {
  readonly tracing: Tracing;
  /** Sends the remaining spans. */
  stop(): Promise<void>;
}

type Env = Readonly<Record<string, string | undefined>>;

const packages = ["sdk-trace", "exporter-trace-otlp-http", "context-async-hooks", "resources"].map(
  (name) => `@opentelemetry/${name}`,
);
/** The maximum length of an attribute, so that a span stays small whatever names hosts and users choose. */
const longestAttribute = 300;
const off: StartedTracing = { tracing: noTracing, stop: async () => undefined };

/** Never throws: a server without traces is better than no server. */
export async function startTracing(
  env: Env,
  { version, log, load = loadSdk }: { version: string; log: Logger; load?: () => ReturnType<typeof loadSdk> },
): Promise<StartedTracing> {
  const endpoint = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] || env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  if (!endpoint || env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true" || env["OTEL_TRACES_EXPORTER"] === "none")
    return off;
  const protocol = env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] || env["OTEL_EXPORTER_OTLP_PROTOCOL"];
  if (protocol === "grpc") {
    log.warn("No traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but only HTTP is supported (usually port 4318)");
    return off;
  }
  try {
    const { sdk, exporter, hooks, resources } = await load();
    const { OTLPTraceExporter } = exporter;
    const named = resources.resourceFromAttributes({
      "service.name": env["OTEL_SERVICE_NAME"] || "towline",
      "service.version": version,
    });
    const found = resources.detectResources({ detectors: [resources.resourceAttributesEnvDetector] });
    const provider = new sdk.TracerProvider({
      resource: resources.defaultResource().merge(named).merge(found),
      sampler: toSampler(sdk, env),
      spanLimits: { attributeValueLengthLimit: longestAttribute },
      spanProcessors: [
        new sdk.BatchSpanProcessor({
          exporter: new OTLPTraceExporter(),
          scheduledDelayMillis: Number(env["OTEL_BSP_SCHEDULE_DELAY"]) || 5_000,
        }),
      ],
    });
    tellTrouble(log);
    context.setGlobalContextManager(new hooks.AsyncLocalStorageContextManager().enable());
    trace.setGlobalTracerProvider(provider);
    log.info("tracing with OpenTelemetry enabled");
    return {
      tracing: createTracing(),
      async stop() {
        await provider.shutdown().catch(() => undefined); // reported by the exporter
        trace.disable();
        context.disable();
        diag.disable();
      },
    };
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND";
    const why = missing ? `install ${packages.join(", ")} beside Towline` : (error as Error).message;
    log.warn(`No traces are sent although OTEL_EXPORTER_OTLP_ENDPOINT is set: ${why}`);
    return off;
  }
}

async function loadSdk() {
  const [sdk, exporter, hooks, resources] = await Promise.all([
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/context-async-hooks"),
    import("@opentelemetry/resources"),
  ]);
  return { sdk, exporter, hooks, resources };
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>["sdk"];

/** Samples all pushes unless the standard variables set a ratio. */
function toSampler({ AlwaysOnSampler, ParentBasedSampler, TraceIdRatioBasedSampler }: Sdk, env: Env) {
  const share = Number(env["OTEL_TRACES_SAMPLER_ARG"] ?? "1");
  const byRatio = env["OTEL_TRACES_SAMPLER"]?.endsWith("traceidratio") && share >= 0 && share <= 1;
  return new ParentBasedSampler({ root: byRatio ? new TraceIdRatioBasedSampler(share) : new AlwaysOnSampler() });
}

/** Logs each kind of problem once: a collector that is down must not flood the log. */
function tellTrouble(log: Logger): void {
  const logged = new Set<string>();
  const tell = (message: string) => {
    const kind = message.slice(0, 40);
    if (logged.size < 20 && !logged.has(kind)) log.warn({ error: message.slice(0, 500) }, "could not send traces");
    logged.add(kind);
  };
  const quiet = () => undefined;
  diag.setLogger({ error: tell, warn: tell, info: quiet, debug: quiet, verbose: quiet }, DiagLogLevel.WARN);
}
