/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared by the files of the fabric; others include fabric.h.
 *
 *     fabric.c     open, close, connect; completions; the struct transport
 *     provider.c   the choice of provider and interfaces, and the message with its reason
 *     rail.c       one interface: its domain, queue and endpoints
 *     path.c       from a rail of this rank to one of a peer: probes, rates, the path of each chunk, dead paths
 *     memory.c     registered regions and their keys
 *     channel.c    matching: channels, sequences, messages that arrive early
 *     message.c    messages into posted buffers: slots, credits, the queue of messages to post
 *     bulk.c       large transfers: lanes, announcements, chunks
 *
 * ## The protocol
 *
 * Every message begins with a struct fabric_header. Message number n of a channel meets receive number n; both sides
 * count.
 *
 *     sender                                     receiver
 *     EAGER (at most FABRIC_EAGER_BYTES)  ─────► into a posted buffer, copied out when its receive begins
 *
 *     REQUEST (if no announcement comes soon)    ANNOUNCE as soon as a large receive begins: address, key, lane
 *              ─────────────────────────────►
 *              ◄─────────────────────────────
 *     fi_writedata, chunk by chunk        ─────► counts the chunks of the lane
 *
 * The side that can first compare both tags and sizes ends its own transfer with TRANSFER_MISMATCH and sends REFUSE to
 * the other. The REQUEST lets a large send detect a small receive, which announces nothing; it is not urgent, and most
 * sends never need it.
 *
 * PROBE and its answer verify a path. All other messages may take any verified path, and so may every chunk: the
 * announcement has the key of the memory on each of the receiver's rails, and the observed rate of each, by which the
 * sender divides the next chunks.
 *
 * With checks, every message ends with the CRC-32C of its header and payload, and after the last chunk of a large
 * transfer a CHECKSUM has that of all its bytes. The receiver verifies both before it uses the bytes.
 *
 * ## Flow control
 *
 * Each peer has a fixed number of this rank's receive buffers: its credits. A message costs one. A buffer's credit is
 * returned as soon as it was read (an unexpected message keeps its buffer and another is posted in its place), in any
 * header, or in a CREDIT message when half are owed. CREDIT, PROBE and its answer cost no credit: few can be in flight,
 * and extra buffers are posted for them. Each rail has as many buffers as if it were the only one. The unexpected
 * messages of one channel are bounded separately: every FABRIC_PROOF-th eager message of a channel is answered by
 * CONSUMED when its receive takes it, and no more than FABRIC_WINDOW are sent beyond the last one known to be taken. So
 * a flood on one channel uses bounded memory and never blocks another.
 */
#ifndef WEFT_CORE_TRANSPORT_FABRIC_INTERNAL_STATE_H
#define WEFT_CORE_TRANSPORT_FABRIC_INTERNAL_STATE_H

#include "core/transport/fabric/fabric.h"
#include "core/transport/fabric/internal/libfabric.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <stddef.h>
#include <string.h>

#define FABRIC_WINDOW          128 /**< eager messages of a channel beyond the last one known to be taken */
#define FABRIC_PROOF           32  /**< the receiver acknowledges every FABRIC_PROOF-th of them */
#define FABRIC_LANES           4096
#define FABRIC_LANE_SHIFT      20 /**< the immediate: lane above, chunk below */
#define FABRIC_CHUNK_BYTES     (512 * 1024)
#define FABRIC_LEAST_CHUNK     (32 * 1024) /**< where several rails share a message */
#define FABRIC_SHARES          64          /**< chunks that rails share a message in, unless they are too small */
#define FABRIC_BYTES_IN_FLIGHT (4u << 20)  /**< on one path: keeps the link busy between rounds of progress */
#define FABRIC_PATIENCE        4096        /**< rounds of progress before a large send sends a REQUEST */
#define FABRIC_BATCH           16          /**< completions read at once */
#define FABRIC_NO_LANE         UINT32_MAX

enum message_kind {
    MESSAGE_EAGER,
    MESSAGE_REQUEST,        /**< a large send has waited for its announcement for a while */
    MESSAGE_ANNOUNCE,       /**< a large receive has begun */
    MESSAGE_REFUSE_SEND,    /**< the receiver found a mismatch: ends the send */
    MESSAGE_REFUSE_RECEIVE, /**< the sender found a mismatch: ends the receive */
    MESSAGE_CONSUMED,       /**< receives have taken everything up to `sequence` */
    MESSAGE_CREDIT,         /**< credits only */
    MESSAGE_PROBE,          /**< asks whether this path leads to rank `sequence` */
    MESSAGE_PROBED,         /**< the answer to PROBE */
    MESSAGE_CHECKSUM,       /**< with checks: all chunks were sent, and `tag` is the CRC-32C of their bytes */
};
#define MESSAGE_KINDS       10
#define MESSAGE_CHECK_BYTES 4 /**< at the end of a message, with checks */

/** The header of every message; one byte order for all hosts of a job. */
struct fabric_header {
    uint8_t kind;
    uint8_t channel;
    uint16_t credits; /**< returned credits: receive buffers of the sender */
    uint32_t source;  /**< world rank of the sender */
    uint32_t communicator;
    uint32_t sequence;
    uint64_t tag;
    uint64_t bytes; /**< of the sender's transfer */
};

/** The payload of MESSAGE_ANNOUNCE: as many of `rail` as the receiver has. */
struct fabric_announcement {
    uint64_t address;
    uint32_t lane, chunk_bytes;
    struct {
        uint64_t key;
        double rate; /**< bytes per second received from the reader of this; 0: unknown */
    } rail[FABRIC_RAILS];
};

/** The bytes of an announcement of `rails` rails. */
static inline size_t announcement_bytes(uint32_t rails)
{
    return offsetof(struct fabric_announcement, rail) + rails * sizeof((struct fabric_announcement *)0)->rail[0];
}

_Static_assert(sizeof(struct fabric_header) == 32, "crosses the wire");
_Static_assert(sizeof(struct fabric_announcement) == 16 + 16 * FABRIC_RAILS, "crosses the wire");

/** Memory the provider knows, on every rail. */
struct fabric_region {
    struct fabric_region *next;
    char *base;
    uint64_t bytes;
    struct {
        struct fid_mr *memory;
        uint64_t key;
        void *descriptor; /**< for local use; NULL where the provider asks for none */
    } rail[FABRIC_RAILS];
    bool temporary; /**< for one transfer: closed with it */
};

enum operation_kind {
    OPERATION_SEND,    /**< of a slot */
    OPERATION_RECEIVE, /**< into a slot */
    OPERATION_WRITE,   /**< of a chunk */
};

/** The context of a provider's completion; the provider uses its first bytes. */
struct operation {
    struct fi_context2 context;
    struct operation *next;
    struct transfer *transfer; /**< of a write, or of an eager message; else NULL */
    enum operation_kind kind;
    uint8_t rail;
    bool is_probe; /**< of a send: it may fail without consequences */
    uint32_t peer;
    uint32_t bytes; /**< of a write */
};

/** A buffer for one message, to send it from or to receive it into. */
struct slot {
    struct operation operation;
    struct slot *next;
    const struct fabric_region *region; /**< that contains it; NULL where the provider needs none */
    uint32_t bytes;                     /**< of the message in it */
    struct fabric_header header __attribute__((aligned(64)));
    union {
        uint8_t payload[FABRIC_EAGER_BYTES + MESSAGE_CHECK_BYTES];
        struct fabric_announcement announcement;
    };
};

struct slot_list {
    struct slot *first, **last;
};

struct transfer_list {
    struct transfer *first, **last;
};

/** One peer's messages on one channel of one communicator, both ways. */
struct fabric_channel {
    uint32_t peer, communicator;
    uint8_t number;
    uint32_t send_next, receive_next; /**< sequence numbers of the next transfers */
    uint32_t send_consumed;           /**< the peer has taken the eager messages before this one */
    struct transfer_list receives;    /**< begun, not complete */
    struct transfer_list sends;       /**< large ones that wait for their announcement */
    struct transfer_list held;        /**< small ones beyond the window */
    struct slot *unexpected;          /**< EAGER and REQUEST before their receive */
    struct slot *announced;           /**< ANNOUNCE before its send */
};

enum path_state {
    PATH_NEW,
    PATH_PROBING,
    PATH_VERIFIED,
    PATH_DEAD, /**< was never reached, or is not any more */
};

/** From one rail of this rank to one of a peer. */
struct path {
    enum path_state state;
    uint8_t rail, peer_rail;
    bool probe_due, answer_due; /**< to be sent as soon as the provider has room */
    fi_addr_t address, bulk_address;
    uint64_t asked, answered; /**< clock_now() of the last unanswered probe (0: none) and of the last answer */
    double rate;         /**< bytes per second that the peer has observed on this path, or the link's nominal rate */
    double arrival_rate; /**< bytes per second received on it; 0: not known */
    uint64_t seen_bytes, seen_time; /**< for the next arrival_rate; ns */
    uint64_t bytes_in_flight;
    uint64_t bytes_received; /**< of chunks */
    char peer_interface[32];
};

struct peer {
    struct path *paths;
    uint8_t path_count;
    uint8_t message_path; /**< used for messages */
    uint8_t rails;        /**< number of its rails */
    bool connected;
    bool contacted; /**< its paths have been probed */
    bool busy;      /**< is in the fabric's list of peers with something to post */
    struct peer *next_busy;
    uint32_t credits;             /**< messages that may be sent to it */
    uint32_t owed;                /**< credits not yet returned */
    uint32_t active;              /**< transfers begun and not ended */
    uint32_t events, events_seen; /**< messages and chunks sent or received: now, and at the last look */
    uint64_t moved;               /**< clock_now() of the last look that saw new ones */
    struct slot_list control;     /**< composed messages that wait to be posted */
    struct transfer_list waiting; /**< eager sends that wait to be posted */
    struct transfer_list writing; /**< announced sends with chunks to write */
};

enum flight_phase {
    FLIGHT_NOTHING,
    FLIGHT_RECEIVE,   /**< in channel.receives */
    FLIGHT_SEND,      /**< in channel.sends */
    FLIGHT_HELD,      /**< in channel.held */
    FLIGHT_WAITING,   /**< in peer.waiting */
    FLIGHT_LEAVING,   /**< posted in a slot */
    FLIGHT_WRITING,   /**< in peer.writing */
    FLIGHT_COMPLETING /**< all chunks posted, not all complete */
};

/** The fabric's state in a transfer's private words. */
struct flight {
    struct fabric_channel *channel;
    union {
        struct fabric_region *region; /**< of a large one */
        struct slot *slot;            /**< of an eager send */
    };
    struct transfer *next_waiting; /**< in fabric.laneless or fabric.unrequested */
    struct slot *announced;        /**< the announcement to a large send */
    uint32_t sequence;
    uint32_t lane;
    uint32_t chunk_bytes, chunks, done;
    uint32_t posted;   /**< of a receive: 1 once its checksum has come */
    uint32_t checksum; /**< of a send: of the chunks posted so far; of a receive: as the sender has it */
    uint32_t phase;
};
_Static_assert(sizeof(struct flight) <= sizeof(((struct transfer *)0)->private_words), "lives in the transfer");

/** The receiving end of a large transfer. */
struct fabric_lane {
    struct transfer *transfer; /**< NULL: free */
    struct arrivals {
        uint64_t first, last;             /**< clock_now() of its chunks by a rail; 0: none */
        uint64_t first_bytes, last_bytes; /**< path.bytes_received then */
    } rail[FABRIC_RAILS];
};

/** A completion and its rail. */
struct completion {
    struct fi_cq_data_entry entry;
    uint32_t rail;
};

/** One interface. */
struct rail {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint; /**< for messages; NULL after a cancel that had to close it */
    struct fid_ep *bulk;     /**< for large writes: where a connection is one byte stream, messages should not queue
                              after megabytes; elsewhere it is `endpoint` */
    int descriptor;          /**< of the queue; -1 where the provider cannot block */
    uint32_t receive_want, receive_have; /**< receive buffers that must be posted, and are */
    uint32_t receive_most;               /**< posted when there is nothing else to do */
    uint64_t busy_until;                 /**< estimated time when it will have sent everything posted to it */
    char interface[32];                  /**< or the device */
};

struct fabric {
    struct transport transport;
    struct fabric_endpoint endpoint;
    struct libfabric library;
    uint32_t rank, ranks;
    struct rail rails[FABRIC_RAILS];
    uint32_t rail_count;
    bool checks;    /**< messages carry checksums */
    bool open;      /**< false after a cancel that had to close the endpoints */
    bool cancelled; /**< a transfer was canceled: the job has failed */
    bool closing;   /**< paths are no longer probed */
    int descriptor; /**< of the queues; -1 where the provider cannot block */
    int sleepers;   /**< the epoll descriptor over several queues; -1: there is one */
    uint64_t mr_mode;
    uint64_t watched; /**< clock_now() of the last look for silent paths */

    struct peer *peers;
    struct peer *busy_peers;
    uint32_t credits; /**< buffers for each peer */

    struct fabric_channel **channels; /**< open addressing, a power of two */
    uint32_t channel_count, channel_size;
    struct fabric_channel *channel_last; /**< the last one looked up */

    uint32_t sends; /**< slots being sent */
    uint64_t posts; /**< messages and chunks that the provider has taken so far */
    struct slot *free_slots;
    struct operation *free_writes;
    struct slab *slabs;

    struct fabric_lane lanes[FABRIC_LANES];
    uint32_t free_lanes[FABRIC_LANES];
    uint32_t free_lane_count;
    struct transfer *laneless;    /**< receives that wait for a lane, by flight.next_waiting */
    struct transfer *unrequested; /**< large sends that wait and have not sent a REQUEST, by flight.next_waiting */
    uint32_t patience;            /**< rounds of progress until they do */

    const struct endpoint_info *endpoints; /**< of all ranks; NULL: unknown */

    struct heap *heap;
    struct fabric_region *regions; /**< kept: the heap's, and those of fabric_register() */
    struct fabric_region *spare_regions;
    uint64_t keys[32]; /**< random, not yet used */
    uint32_t key_count;

    struct error failure; /**< the transport's first error, returned from then on */
    struct transport_counters counters;
    char name[40];
    char description[1024];
};

static inline struct flight *flight_of(struct transfer *transfer)
{
    return (struct flight *)(void *)transfer->private_words;
}

static inline void transfer_list_append(struct transfer_list *list, struct transfer *transfer)
{
    transfer->next = NULL;
    if (list->first)
        *list->last = transfer;
    else
        list->first = transfer;
    list->last = &transfer->next;
}

static inline void transfer_list_take_first(struct transfer_list *list)
{
    list->first = list->first->next;
}

/** Remove `transfer` from `list` if it is in it. */
void transfer_list_remove(struct transfer_list *list, struct transfer *transfer);

/* ---- core/transport/fabric/provider.c ---- */

/** A chosen interface: its fi_info (fi_freeinfo), and the data for the endpoint info. */
struct rail_choice {
    struct fi_info *info;
    uint8_t network[16];
    uint64_t bytes_per_second;
    char interface[32];
};

/** Choose provider and interfaces, the first to use first. `reason` says why, for the description. */
weft_status fabric_choose(const struct libfabric *library, const struct fabric_config *config, uint64_t receives,
                          struct rail_choice *choices, uint32_t *count, char *reason, size_t size, struct error *error);

/* ---- core/transport/fabric/rail.c ---- */

/** Open `rail`, whose info is set; its addresses go into `endpoint`. Call rail_close() in any case. */
weft_status rail_open(struct fabric *fabric, struct rail *rail, struct fabric_rail_endpoint *endpoint,
                      struct error *error);
void rail_close(const struct fabric *fabric, struct rail *rail);

/** Close only its endpoints: nothing can be written through them any more. */
void rail_close_endpoints(struct rail *rail);

/** Whether a thread that sleeps on the rail's descriptor will be woken by later arrivals. */
bool rail_may_sleep(struct rail *rail);

/* ---- core/transport/fabric/path.c ---- */

/** Set up the paths to `rank`, whose endpoint this is. */
weft_status paths_open(struct fabric *fabric, uint32_t rank, const struct fabric_endpoint *endpoint,
                       struct error *error);

/** At the first contact: probe all paths. */
void paths_probe(struct fabric *fabric, struct peer *peer);

/** Send the probes and answers that are due; false when the provider had no room: try again. */
bool paths_flush(struct fabric *fabric, struct peer *peer);

/** A probe of `peer`, or the answer to one of ours, has arrived on `rail`. */
void path_take_probe(struct fabric *fabric, struct peer *peer, uint32_t rail, const struct fabric_header *header);

/** A probe could not be sent on `rail`. */
void path_refuse_probe(struct peer *peer, uint32_t rail);

/** The path for messages; NULL: none is verified yet. */
struct path *path_of_messages(struct peer *peer);

/** The path on which the next chunk of `bytes` would complete first; NULL: it must wait for those before it. */
struct path *path_for_chunk(struct fabric *fabric, struct peer *peer, uint64_t bytes);

/** The chunk was posted on `path`. */
void path_take_chunk(struct fabric *fabric, struct peer *peer, struct path *path, uint64_t bytes);

/** The path of `peer` from `rail` on this rank; NULL if there is none. */
struct path *path_by_rail(const struct peer *peer, uint32_t rail);

/** Adopt the rates that the peer has observed. */
void paths_take_rates(struct peer *peer, const struct fabric_announcement *announcement);

/** A large transfer is complete: update its rails' rates. */
void paths_learn(struct peer *peer, const struct fabric_lane *lane);

/** Fail if a path has stopped responding while others of its peer have not. Called when there is nothing else to do. */
void paths_watch(struct fabric *fabric);

/* ---- core/transport/fabric/memory.c ---- */

/** Register `base`, with key and mode as the provider requires. */
weft_status region_open(struct fabric *fabric, void *base, uint64_t bytes, struct fabric_region **region,
                        struct error *error);
void region_close(struct fabric *fabric, struct fabric_region *region);

/** A region containing [pointer, pointer + bytes): a cached one, a new one of the heap, or a temporary one. */
weft_status region_find(struct fabric *fabric, void *pointer, uint64_t bytes, struct fabric_region **region,
                        struct error *error);

/** The transfer is done: closes a temporary region. NULL is allowed. */
void region_release(struct fabric *fabric, struct fabric_region *region);

/** Register the heap as a whole where that does not touch its pages. */
weft_status fabric_memory_open(struct fabric *fabric, struct error *error);
void fabric_memory_close(struct fabric *fabric);

/** The address that a peer needs to write at `pointer`. */
static inline uint64_t region_remote_address(const struct fabric *fabric, const struct fabric_region *region,
                                             void *pointer)
{
    return fabric->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)pointer
                                             : (uint64_t)((char *)pointer - region->base);
}

/* ---- core/transport/fabric/channel.c ---- */

/** Free the state of a communicator's channels; none of its messages is in flight. */
void channels_forget(struct fabric *fabric, uint32_t communicator);
void fabric_channels_close(struct fabric *fabric);

weft_status channel_begin_send(struct fabric *fabric, struct transfer *transfer, struct error *error);
weft_status channel_begin_receive(struct fabric *fabric, struct transfer *transfer, struct error *error);

/** Handle a message; returns whether its slot is kept (else it is posted again). */
bool channel_take_message(struct fabric *fabric, struct slot *slot);

/** Send REQUESTs for large sends that still wait. */
void channel_request(struct fabric *fabric);

/** Lists by flight.next_waiting: append, and remove if present. */
void waiting_append(struct transfer **list, struct transfer *transfer);
void waiting_remove(struct transfer **list, struct transfer *transfer);

/* ---- core/transport/fabric/message.c ---- */

struct slot *slot_take(struct fabric *fabric, struct error *error);
void slot_give(struct fabric *fabric, struct slot *slot);
struct operation *write_take(struct fabric *fabric, struct error *error);
void write_give(struct fabric *fabric, struct operation *operation);
void fabric_slabs_close(struct fabric *fabric);

/** Post receive buffers until the rail has `wanted`. */
weft_status message_post_receives(struct fabric *fabric, struct rail *rail, uint32_t wanted, struct error *error);

/** Post a probe or the answer to one on `path`; false when the provider has no room now. */
bool message_post_probe(struct fabric *fabric, struct peer *peer, const struct path *path,
                        const struct fabric_header *header);

/** Send an eager message now, or when earlier ones and the peer's credits allow. */
void message_eager(struct fabric *fabric, struct transfer *transfer);

/** A message was sent from its slot. */
void message_sent(struct fabric *fabric, struct slot *slot);

/** Whether a message that has come is whole; drops its checksum. The fabric has failed if it is damaged. */
bool message_verify(struct fabric *fabric, struct slot *slot);

/** Send, now or later, a message about `channel` without payload (except an announcement). */
void message_control(struct fabric *fabric, const struct fabric_channel *channel, enum message_kind kind,
                     uint32_t sequence, uint64_t tag, uint64_t bytes, const struct fabric_announcement *announcement);

/** A message of `peer` was read and its buffer is free again. */
void message_read(struct fabric *fabric, struct peer *peer);

/** Post messages waiting for `peer` that have credit; false when the provider had no room: try again. */
bool message_flush(struct fabric *fabric, struct peer *peer);

/** Have fabric_progress() post for `peer`. */
void peer_is_busy(struct fabric *fabric, struct peer *peer);

/* ---- core/transport/fabric/bulk.c ---- */

/** Announce a receive that has begun, or note that it waits for a lane. */
void bulk_announce(struct fabric *fabric, struct transfer *transfer);

/** An announced receive has ended: free its lane and region. */
void bulk_retire(struct fabric *fabric, struct transfer *transfer);

/** Begin to write to the memory that the peer announced in `slot`, which is kept until the transfer ends. */
void bulk_write(struct fabric *fabric, struct transfer *transfer, struct slot *slot);

/** Whether an announcement of `bytes` bytes is plausible. */
bool bulk_is_sound(const struct fabric_announcement *announcement, uint64_t bytes);

/** Post chunks to `peer` up to the limit in flight; false when the provider had no room: try again. */
bool bulk_flush(struct fabric *fabric, struct peer *peer);

/** The checksum of an announced receive has arrived. */
void bulk_take_checksum(struct fabric *fabric, struct transfer *transfer, uint32_t checksum);

/** A chunk has arrived on `rail`. */
void bulk_take_chunk(struct fabric *fabric, uint32_t rail, uint32_t immediate);

/** An announced send has ended: free its region and the announcement. */
void bulk_forget(struct fabric *fabric, struct transfer *transfer);

/** A chunk was written. */
void bulk_chunk_written(struct fabric *fabric, struct operation *operation);

/* ---- fabric.c ---- */

/** `transfer` has ended. */
void transfer_end(struct fabric *fabric, struct transfer *transfer, enum transfer_state state);

/** Note that `bytes` bytes from rank `peer`, `what`, are not those that it sent. */
void fabric_fail_damaged(struct fabric *fabric, uint32_t peer, const char *what, uint64_t bytes, uint32_t expected,
                         uint32_t found);

/** Note the transport's failure: `number` is libfabric's (positive), `peer` UINT32_MAX when unknown. */
void fabric_fail(struct fabric *fabric, const struct rail *rail, uint32_t peer, const char *doing, int number,
                 const char *detail);

#endif
