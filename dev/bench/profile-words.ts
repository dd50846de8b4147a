/**
 * Findings from CPU profiles of the server, and the improvements made. Plain text, because the figures depend on the
 * machine.
 */
export const profileWords = `\`npm run bench -- --only many --profile DIR\` writes a CPU profile. The following one covers a push for 200 deployments of one repository until all of them were deployed, two at a time, on a quiet machine. The server itself was busy for 5 s of these 30 s, which is 25 ms per deployment:

| what the server itself was busy with | share |
| --- | ---: |
| API server: requests, encryption | 34 % |
| reading kluctl's results, and compressing them for their Secrets | 14 % |
| deciding, and composing the status | 9 % |
| checkouts, and verifying that they are unchanged | 8 % |
| reading KluctlDeployments from the watch | 7 % |
| the queue: Redis, BullMQ | 6 % |
| instructing the process that starts git and kluctl | 4 % |
| creating directories for kluctl | 4 % |
| garbage collection | 1 % |
| everything else, mostly Node.js itself | 14 % |

What was improved since the first profiles:

- The schema of the configuration is built once, instead of each time its files are read: 5 % of the server's time.
- With 1,000 deployments, a scrape of \`/metrics\` took 0.6 s, blocked everything else meanwhile and created 150 MB of garbage, because the 50 lines of each deployment were built for every scrape. They are now kept as text until the deployment changes: 0.04 to 0.2 s, both measured on a busy machine.
- Each job cloned the repository, which took two git processes and about 30 ms. Now all jobs at the same commit share a checkout, also across reconciliations.
- Each reconciliation by interval asked git separately if no new commit of its repository was known. Now they share an answer for half a minute.
- The Kubernetes client library contained 75 MB of generated code that nothing used. Now only the part that reads a kubeconfig is loaded; the server starts with about 50 MB less.
- V8 kept the memory that the start had needed. Now a quiet server releases it within 15 seconds: about 40 MB without deployments and 70 MB with 1,000.
- To start git, the system copied the page tables of a server of 300 MB, and then each page that was written to until git ran: for 44 ms no thread of the server made progress, and half of its time was spent in the kernel. Now a small separate process starts git and kluctl.
- A push took three round trips to Redis and created a job that was discarded if one was already waiting. Now pushes that arrive within 5 ms share one round trip, and only pushes without a waiting job go on to the queue.
- A changed deployment was rendered twice, to compare it and then to deploy it. Now, if the watches show that the deployed objects are untouched, kluctl runs only once, to deploy.
- Node.js sampled the event-loop delay every 10 ms: 0.46 % of a core on an idle server. Sampling every 50 ms takes 0.12 %.
- Each status from the watch was read with newly built schemas, which V8 compiled every time: 324 µs. They are built once now: 44 µs.
- kluctl starts four renderers and has work for two. The other two were forked only to be stopped: 9 ms of CPU in each run. Now a renderer is forked only when there is work for it, and Jinja's patterns, which took 2.5 ms in each renderer, are compiled before the fork.
- Go's garbage collector runs less often in kluctl: 8 ms less CPU per run, for 5 MB more memory. In short runs, kluctl computes with a single thread: 6 ms less.
- The server itself started kluctl, under a supervising shell, and removed its directories file by file: 19 % and 4 % of the server's time. Now the process that starts git does both.

What remains: most requests to the API server write or read one thing each, so fewer requests would mean reporting less. The rest consists of many small parts.`;
