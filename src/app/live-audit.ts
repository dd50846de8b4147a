/** The audit log, which follows the live configuration. */
import type { LiveConfig } from "../config/live.ts";
import type { Logger } from "../log.ts";
import { type AuditLogOptions, createAuditLog } from "../log/audit.ts";

/** Throws if its file cannot be written; a configuration change to such a file is rejected. */
export function createLiveAudit(live: LiveConfig, options: Omit<AuditLogOptions, "file">): Pick<Logger, "info"> {
  let { log, close } = createAuditLog({ ...live.now.audit, ...options });
  live.follow((next, current) => {
    if (next.audit.file === current.audit.file) return undefined;
    const opened = createAuditLog({ ...next.audit, ...options });
    return {
      take() {
        close();
        ({ log, close } = opened);
      },
      drop: opened.close,
    };
  });
  return { info: (...line: Parameters<Logger["info"]>) => log.info(...line) };
}
