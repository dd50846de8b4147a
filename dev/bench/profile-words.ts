/** What CPU profiles of the server have shown, and what became of it: words, for the figures change with the machine. */
export const profileWords = `A CPU profile is written by \`npm run bench -- --only many --profile DIR\`. One of a server from a push for 200 deployments of one repository until all were done, two at a time, on a quiet machine. Of these 30 s the server itself was busy for 5 s, 25 ms for each deployment:

| of the time that the server itself was busy | share |
| --- | ---: |
| asking and telling the API server: requests, encryption | 34 % |
| reading kluctl's results, and packing them for their Secrets | 14 % |
| deciding, and composing the status | 9 % |
| checkouts, and whether they are as they were | 8 % |
| reading KluctlDeployments that the watch brings | 7 % |
| the queue: Redis, BullMQ | 6 % |
| telling the process that starts git and kluctl what to do | 4 % |
| making directories of kluctl's | 4 % |
| collecting garbage | 1 % |
| the rest, most of it Node's own | 14 % |

What was mended since the first profiles:

- The configuration's schema is made once, and not at every look at its files: 5 % of the server's time.
- A scrape of \`/metrics\` took 0.6 s with 1 000 deployments, held up everything else meanwhile and made 150 MB of garbage, because each of the 50 lines of each deployment was built anew. They are kept as text until the deployment changes: 0.04 to 0.2 s, measured on a busy machine before and after.
- Each job cloned the repository, two git processes and some 30 ms. All that want the same commit share a checkout, also from one loop to the next.
- Each loop that an interval asked for looked at git by itself, as long as no move of its repository was known. They share an answer for half a minute.
- The Kubernetes client's library came with 75 MB of generated code that nothing used. What reads a kubeconfig is all that is loaded of it; the server starts with some 50 MB less.
- What V8 had taken for the start, it kept: a server that is quiet gives it back within a quarter of a minute, some 40 MB without deployments and 70 MB with 1 000.
- To start git, the system copied the page tables of a server of 300 MB, and after that each page that was written to until git ran: 44 ms in which no thread of the server went on, and half of its time in the kernel. A small process of its own starts git now, and kluctl.
- A push took three round trips to Redis and a job that was thrown away, for one waited already. Pushes that come within 5 ms share one round trip, and only those for which no job waits go on to the queue.
- A changed deployment was rendered twice, to compare it and then to deploy it. Where the watches show that nobody touched what was deployed last, the deploy alone tells, and kluctl runs once.
- Node looked every 10 ms how late its event loop was: 0.46 % of a core while nothing else happened. Every 50 ms it takes 0.12 %.
- Each status that the watch brought was read with schemas that were made for it, and which V8 compiled anew: 324 µs. They are made once: 44 µs.
- kluctl starts four renderers and has work for two. The others were forked, only to be told to end: 9 ms of CPU of each run. Now none is before there is work; and Jinja's patterns, which took 2.5 ms in each, are made before they are forked.
- Go collects garbage less often in kluctl than before: 8 ms of CPU of each run for 5 MB. And a kluctl that is over in a moment computes with one thread: 6 ms.
- kluctl was started by the server itself, under a shell that watches over it, and its directories were removed file by file: 19 % and 4 % of the server's time. The process that starts git does both now.

What is left: most requests to the API server are one for each thing that is told, and could be fewer only if less were told. The rest is many small parts.`;
