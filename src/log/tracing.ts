/**
 * Traces a push: receive, match, enqueue, queue wait, and the stages of the work. Only uses OpenTelemetry's API, which
 * does nothing until an SDK is set up (app/tracing-sdk.ts); without an SDK, `noTracing` is used.
 *
 * Spans contain names, counts and our own texts, but no error messages, because those may quote what users wrote.
 */
import { context, ROOT_CONTEXT, type Span, SpanStatusCode, trace } from "@opentelemetry/api";

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Tracing {
  /** Runs the work in a span, as a child of the current one. `came` derives attributes from the result. */
  inSpan<T>(
    name: string,
    attributes: SpanAttributes,
    work: () => Promise<T>,
    came?: (value: T) => SpanAttributes & { readonly failed?: boolean },
  ): Promise<T>;
  /** Records a span that ends now and lasted this long. */
  past(name: string, attributes: SpanAttributes, seconds: number): void;
  /** The current span as text, in the format of W3C's `traceparent`. */
  carry(): string | undefined;
  /** Runs the work as a child of the carried span; without one, as the root of a new trace. */
  continued<T>(carried: string | undefined, work: () => Promise<T>): Promise<T>;
}

export const noTracing: Tracing = {
  inSpan: (_name, _attributes, work) => work(),
  past: () => undefined,
  carry: () => undefined,
  continued: (_carried, work) => work(),
};

export const traceparent = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

export function createTracing(): Tracing {
  const tracer = trace.getTracer("towline");

  function end(span: Span, failed: boolean): void {
    if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  }

  return {
    inSpan(name, attributes, work, came) {
      return tracer.startActiveSpan(name, { attributes: known(attributes) }, async (span) => {
        let failed = true;
        try {
          const value = await work();
          const { failed: badly = false, ...more } = came?.(value) ?? {};
          span.setAttributes(known(more));
          failed = badly;
          return value;
        } catch (error) {
          if (error instanceof Error) span.setAttribute("error.type", error.name);
          throw error;
        } finally {
          end(span, failed);
        }
      });
    },
    past(name, attributes, seconds) {
      const endTime = Date.now();
      tracer.startSpan(name, { attributes: known(attributes), startTime: endTime - seconds * 1_000 }).end(endTime);
    },
    carry() {
      const span = trace.getSpanContext(context.active());
      return span && `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, "0")}`;
    },
    continued(carried, work) {
      const [, traceId, spanId, flags] = traceparent.exec(carried ?? "") ?? [];
      const from =
        traceId === undefined || spanId === undefined
          ? ROOT_CONTEXT
          : trace.setSpanContext(ROOT_CONTEXT, {
              traceId,
              spanId,
              traceFlags: Number.parseInt(flags ?? "0", 16),
              isRemote: true,
            });
      return context.with(from, work);
    },
  };
}

function known(attributes: SpanAttributes): Record<string, string | number | boolean> {
  const there = Object.entries(attributes).filter(
    (one): one is [string, string | number | boolean] => one[1] !== undefined,
  );
  return Object.fromEntries(there);
}
