/** Writes the audit log: one JSON object per line, to its own file or to the log. */
import { type DestinationStream, pino } from "pino";
import { ConfigError } from "../errors.ts";
import type { Logger } from "../log.ts";

export interface AuditLogOptions {
  /** Absent: the audit log is part of the log. */
  readonly file?: string | undefined;
  readonly log: Logger;
  /** Creates a logger that writes to the audit log's file. */
  readonly loggerFor: (destination: DestinationStream) => Logger;
}

/** Audit entries are written at any log level. Throws a ConfigError if the file cannot be written. */
export function createAuditLog({ file, log, loggerFor }: AuditLogOptions): Logger {
  const marks = { audit: true, logger: "audit" };
  if (file === undefined) return log.child(marks, { level: "info" });
  try {
    // Opened for appending, so that it can be rotated by copying and truncating.
    const destination = pino.destination({ dest: file, append: true, sync: true });
    let failing = false;
    destination.on("error", (error) => {
      if (!failing) log.error({ audit: file, error: (error as Error).message }, "could not write the audit log");
      failing = true;
    });
    return loggerFor(destination).child(marks);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new ConfigError(
      `The audit log ${file} is not writable: ${code ?? message}. Set TOWLINE_AUDIT_FILE to another file.`,
      {
        cause: error,
      },
    );
  }
}
