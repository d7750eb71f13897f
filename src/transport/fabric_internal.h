/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the files of the fabric share. Not for anybody else: they read fabric.h.
 *
 *     fabric.c           open, close, connect; the completion queue; the struct transport
 *     fabric_provider.c  which provider, which interface, and the sentence that says why
 *     fabric_memory.c    registered regions and their keys
 *     fabric_channel.c   matching: channels, sequences, what came before it was expected
 *     fabric_message.c   messages into posted buffers: slots, credits, what waits to be posted
 *     fabric_bulk.c      large transfers: lanes, announcements, chunks
 *     fabric_shuffle.c   the test shim that reorders completions
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
 * Whoever can compare both tags and sizes first ends its own side with TRANSFER_MISMATCH and tells the other by REFUSE.
 * The REQUEST is what lets a large send meet a small receive, which would announce nothing; there is no hurry about it,
 * and most sends never need it.
 *
 * ## Flow control
 *
 * Each peer has a fixed number of this rank's receive buffers: its credits. A message costs one; a buffer is given back
 * as soon as it was read (an unexpected message keeps its buffer and another is posted in its place), and the number
 * given back rides along in any header, or in a CREDIT message when half are owed. CREDIT costs no credit: at most two
 * can be under way, and two buffers more are posted for them. What one channel may have waiting unexpected is bounded
 * apart: every FABRIC_PROOF-th eager message of a channel is answered by CONSUMED when its receive takes it, and no
 * more than FABRIC_WINDOW are sent beyond the last one known to be taken. So a flood on one channel costs bounded
 * memory and never holds up another.
 */
#ifndef WEFT_TRANSPORT_FABRIC_INTERNAL_H
#define WEFT_TRANSPORT_FABRIC_INTERNAL_H

#include "transport/fabric.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <string.h>

#define FABRIC_WINDOW           128 /**< eager messages of a channel beyond the last one known to be taken */
#define FABRIC_PROOF            32  /**< every so many of them the receiver says so */
#define FABRIC_LANES            4096
#define FABRIC_LANE_SHIFT       20 /**< the immediate: lane above, chunk below */
#define FABRIC_CHUNK_BYTES      (512 * 1024)
#define FABRIC_CHUNKS_IN_FLIGHT 8    /**< to one peer: a wire stays busy while a rank does not look */
#define FABRIC_PATIENCE         4096 /**< rounds of progress that a large send waits before it asks */
#define FABRIC_BATCH            16   /**< completions read at once */
#define FABRIC_NO_LANE          UINT32_MAX

enum message_kind {
    MESSAGE_EAGER,
    MESSAGE_REQUEST,        /**< a large send has waited for its announcement for a while */
    MESSAGE_ANNOUNCE,       /**< a large receive has begun */
    MESSAGE_REFUSE_SEND,    /**< the receiver found a mismatch: ends the send */
    MESSAGE_REFUSE_RECEIVE, /**< the sender found a mismatch: ends the receive */
    MESSAGE_CONSUMED,       /**< receives have taken everything up to `sequence` */
    MESSAGE_CREDIT,         /**< nothing but its credits */
};
#define MESSAGE_KINDS 7

/** The first bytes of every message; one byte order for all hosts of a job. */
struct fabric_header {
    uint8_t kind;
    uint8_t channel;
    uint16_t credits; /**< buffers of the sender of this that its reader may use again */
    uint32_t source;  /**< world rank of who sends this */
    uint32_t communicator;
    uint32_t sequence;
    uint64_t tag;
    uint64_t bytes; /**< of the transfer, by the sender of this */
};

/** What follows the header of MESSAGE_ANNOUNCE. */
struct fabric_announcement {
    uint64_t address, key;
    uint32_t lane, unused;
};

_Static_assert(sizeof(struct fabric_header) == 32, "crosses the wire");
_Static_assert(sizeof(struct fabric_announcement) == 24, "crosses the wire");

/** Memory the provider knows. */
struct region {
    struct region *next;
    struct fid_mr *memory;
    char *base;
    uint64_t bytes, key;
    void *descriptor; /**< for local use; NULL where the provider asks for none */
    bool temporary;   /**< for one transfer: closed with it */
};

enum operation_kind {
    OPERATION_SEND,    /**< of a slot */
    OPERATION_RECEIVE, /**< into a slot */
    OPERATION_WRITE,   /**< of a chunk */
};

/** What the provider hands back with a completion; its first bytes are the provider's own. */
struct operation {
    struct fi_context2 context;
    struct operation *next;
    struct transfer *transfer; /**< of a write, or of an eager message; else NULL */
    enum operation_kind kind;
    uint32_t peer;
};

/** A buffer for one message, to send it from or to receive it into. */
struct slot {
    struct operation operation;
    struct slot *next;
    void *descriptor;
    uint32_t bytes; /**< of the message in it */
    struct fabric_header header __attribute__((aligned(64)));
    uint8_t payload[FABRIC_EAGER_BYTES];
};

struct slot_list {
    struct slot *first, **last;
};

struct transfer_list {
    struct transfer *first, **last;
};

/** Of one peer's messages on one channel of one communicator, both ways. */
struct channel {
    uint32_t peer, communicator;
    uint8_t number;
    uint32_t send_next, receive_next; /**< sequence numbers to be given to the next transfer */
    uint32_t send_consumed;           /**< the peer has taken the eager messages before this one */
    struct transfer_list receives;    /**< begun, not complete */
    struct transfer_list sends;       /**< large ones that wait for their announcement */
    struct transfer_list held;        /**< small ones beyond the window */
    struct slot *unexpected;          /**< EAGER and REQUEST before their receive */
    struct slot *announced;           /**< ANNOUNCE before its send */
};

struct peer {
    fi_addr_t address, bulk_address;
    bool connected;
    bool busy; /**< is in the fabric's list of peers with something to post */
    struct peer *next_busy;
    uint32_t credits;             /**< messages that may be sent to it */
    uint32_t owed;                /**< its messages that were read and not yet told of */
    struct slot_list control;     /**< composed messages that wait to be posted */
    struct transfer_list waiting; /**< eager sends that wait to be posted */
    struct transfer_list writing; /**< announced sends with chunks to write */
    uint32_t writes;              /**< chunks under way */
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

/** What the fabric keeps in a transfer's private words. */
struct flight {
    struct channel *channel;
    union {
        struct region *region; /**< of a large one */
        struct slot *slot;     /**< that an eager one leaves in */
    };
    struct transfer *next_waiting; /**< in fabric.laneless or fabric.unrequested */
    uint64_t address, key;         /**< of the peer's announced memory */
    uint32_t sequence;
    uint32_t lane;
    uint32_t chunks, posted, done;
    uint32_t phase;
};
_Static_assert(sizeof(struct flight) <= sizeof(((struct transfer *)0)->private_words), "lives in the transfer");

struct shuffle;

struct fabric {
    struct transport transport;
    struct fabric_card card;
    uint32_t rank, ranks;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint; /**< of messages; NULL after a cancel that had to close it */
    struct fid_ep *bulk; /**< of large writes: where a connection is one stream of bytes, messages shall not stand in
                            line behind megabytes; elsewhere it is `endpoint` */
    bool cancelled;      /**< some transfer was: the job has failed */
    int descriptor;      /**< of the queue; -1 where the provider cannot block */
    uint64_t mr_mode;

    struct peer *peers;
    struct peer *busy_peers;
    uint32_t credits;      /**< buffers for each peer */
    uint32_t receive_want; /**< receive buffers that should be posted, and are */
    uint32_t receive_have;

    struct channel **channels; /**< open addressing, a power of two */
    uint32_t channel_count, channel_size;
    struct channel *channel_last; /**< the last one looked up */

    uint32_t sends; /**< slots being sent */
    struct slot *free_slots;
    struct operation *free_writes;
    struct slab *slabs;

    struct transfer *lanes[FABRIC_LANES];
    uint32_t free_lanes[FABRIC_LANES];
    uint32_t free_lane_count;
    struct transfer *laneless;    /**< receives that wait for a lane, by flight.next_waiting */
    struct transfer *unrequested; /**< large sends that wait and have not sent a REQUEST, by flight.next_waiting */
    uint32_t patience;            /**< rounds of progress until they do */

    struct heap *heap;
    struct region *regions; /**< kept: the heap's, and those of fabric_register() */
    struct region *spare_regions;
    uint64_t keys[32]; /**< random, not yet used */
    uint32_t key_count;

    struct shuffle *shuffle; /**< NULL but in tests */
    struct error failure;    /**< the first error of the transport, returned ever after */
    struct transport_counters counters;
    char name[40];
    char description[512];
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

/** Take `transfer` out of `list` if it is in it. */
void transfer_list_remove(struct transfer_list *list, struct transfer *transfer);

/* ---- fabric_provider.c ------------------------------------------------------------------------------------------ */

/** Choose provider and interface; `info` is the caller's (fi_freeinfo). `reason` says why, for the description. */
weft_status fabric_choose(const struct fabric_config *config, uint64_t receives, struct fi_info **info, char *reason,
                          size_t size, struct error *error);

/* ---- fabric_memory.c -------------------------------------------------------------------------------------------- */

/** Register `base`; key and mode as the provider wants it. */
weft_status region_open(struct fabric *fabric, void *base, uint64_t bytes, struct region **region, struct error *error);
void region_close(struct fabric *fabric, struct region *region);

/** A region that holds [pointer, pointer + bytes): a kept one, a new one of the heap, or a temporary one. */
weft_status region_find(struct fabric *fabric, void *pointer, uint64_t bytes, struct region **region,
                        struct error *error);

/** The region's user is done: closes a temporary one. NULL is allowed. */
void region_release(struct fabric *fabric, struct region *region);

/** Register the heap as a whole where that touches nothing. */
weft_status fabric_memory_open(struct fabric *fabric, struct error *error);
void fabric_memory_close(struct fabric *fabric);

/** What a peer must be told to write at `pointer`. */
static inline uint64_t region_remote_address(const struct fabric *fabric, const struct region *region, void *pointer)
{
    return fabric->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)pointer
                                             : (uint64_t)((char *)pointer - region->base);
}

/* ---- fabric_channel.c ------------------------------------------------------------------------------------------- */

/** The channel's state, made when it is first used; NULL when there is no memory. */
struct channel *channel_get(struct fabric *fabric, uint32_t peer, uint32_t communicator, uint8_t number);

/** Free what is kept for a communicator's channels: nothing of it is in flight. */
void channels_forget(struct fabric *fabric, uint32_t communicator);
void fabric_channels_close(struct fabric *fabric);

weft_status channel_begin_send(struct fabric *fabric, struct transfer *transfer, struct error *error);
weft_status channel_begin_receive(struct fabric *fabric, struct transfer *transfer, struct error *error);

/** Handle a message; returns whether its slot is kept (else it may be posted again). */
bool channel_take_message(struct fabric *fabric, struct slot *slot);

/** Ask for what large sends still wait for. */
void channel_request(struct fabric *fabric);

/** Lists by flight.next_waiting: append, and take out if it is in it. */
void waiting_append(struct transfer **list, struct transfer *transfer);
void waiting_remove(struct transfer **list, struct transfer *transfer);

/** End `transfer` because the peer's other half has another tag or size. */
void channel_mismatch(struct fabric *fabric, struct transfer *transfer, uint64_t tag, uint64_t bytes);

/* ---- fabric_message.c ------------------------------------------------------------------------------------------- */

struct slot *slot_take(struct fabric *fabric, struct error *error);
void slot_give(struct fabric *fabric, struct slot *slot);
struct operation *write_take(struct fabric *fabric, struct error *error);
void write_give(struct fabric *fabric, struct operation *operation);
void fabric_slabs_close(struct fabric *fabric);

/** Keep `receive_want` receive buffers posted. */
weft_status message_post_receives(struct fabric *fabric, struct error *error);

/** Send an eager message, now or when those before it and the peer's credits allow. */
void message_eager(struct fabric *fabric, struct transfer *transfer);

/** A message has left its slot. */
void message_sent(struct fabric *fabric, struct slot *slot);

/** Send, at once or later, a message without payload (but an announcement) that answers or concerns `channel`. */
void message_control(struct fabric *fabric, const struct channel *channel, enum message_kind kind, uint32_t sequence,
                     uint64_t tag, uint64_t bytes, const struct fabric_announcement *announcement);

/** A message of `peer` was read and its buffer is free again. */
void message_read(struct fabric *fabric, struct peer *peer);

/** Post what waits for `peer` and has credit; false when the provider had no room: try again. */
bool message_flush(struct fabric *fabric, struct peer *peer);

/** Have fabric_progress() look after `peer`. */
void peer_is_busy(struct fabric *fabric, struct peer *peer);

/* ---- fabric_bulk.c ---------------------------------------------------------------------------------------------- */

/** Announce a receive that has begun, or note that it waits for a lane. */
void bulk_announce(struct fabric *fabric, struct transfer *transfer);

/** An announced receive is over: its lane and region are free. */
void bulk_retire(struct fabric *fabric, struct transfer *transfer);

/** Begin to write to what the peer announced. */
void bulk_write(struct fabric *fabric, struct transfer *transfer, const struct fabric_announcement *announcement);

/** Post chunks to `peer` while few enough are under way; false when the provider had no room: try again. */
bool bulk_flush(struct fabric *fabric, struct peer *peer);

/** A chunk has arrived. */
void bulk_take_chunk(struct fabric *fabric, uint32_t immediate);

/** A chunk has left. */
void bulk_chunk_written(struct fabric *fabric, struct operation *operation);

/* ---- fabric.c --------------------------------------------------------------------------------------------------- */

/** Note the transport's failure: `number` is libfabric's (positive), `peer` UINT32_MAX when unknown. */
void fabric_fail(struct fabric *fabric, uint32_t peer, const char *doing, int number, const char *detail);

/* ---- fabric_shuffle.c ------------------------------------------------------------------------------------------- */

weft_status shuffle_open(uint64_t seed, struct shuffle **shuffle, struct error *error);
void shuffle_close(struct shuffle *shuffle);

/** Keep `count` completions back for a while. */
weft_status shuffle_put(struct shuffle *shuffle, const struct fi_cq_data_entry *entries, size_t count,
                        struct error *error);

/** Some that were kept back, in any order. */
size_t shuffle_get(struct shuffle *shuffle, struct fi_cq_data_entry *entries, size_t count);
bool shuffle_is_empty(const struct shuffle *shuffle);

/** Which chunk is the `n`-th of `count` to be written. */
uint32_t shuffle_chunk(const struct shuffle *shuffle, uint32_t n, uint32_t count);

#endif
