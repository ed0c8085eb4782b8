/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Packets that go round between this reflector and another program that returns what it gets: crates/wire/src/loops.rs,
 * by the same names and numbers, with the reasons for them. What a source has seen is its own; only it writes there.
 */
#ifndef XDP_LOOPS_H
#define XDP_LOOPS_H

#include "run.h"
#include "udp.h"
#include "checksum.h"
#include "own.h"
#include "known.h"

enum {
	PROBE_LEN = 12,
	FIRST_DUE = 32,
	MOST_WEIGHT = 16,
	LIFE = 8,
	MOST_LIFE = 64,
	SETS = 1024,
	WAYS = 4,
	RETURNERS = 256,
	/* "loop" */
	PROBE_MAGIC = 0x706f6f6c,
};

/*
 * Where packets come fast, not every one is looked at. A loop brings the same bytes again. So one of CLOSE packets is
 * looked at until CALM looks in a row have found bytes that were not seen before, and one of FAR from then on. If no
 * look was for LOOK_NS, the next packet is looked at: a loop of few packets is slow, at some µs a round.
 */
enum { CLOSE = 16, FAR = 256, CALM = 64, LOOK_NS = 1 << 18 };

struct seen {
	u32 tag;
	u32 score;
	u32 due;
	u16 life;
	u16 withheld;
};

struct seen_set {
	struct seen way[WAYS];
};

struct returners {
	u64 mark[RETURNERS];
};

/* By source, then by set. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct seen_set);
} SEEN SEC(".maps");

/* By source. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct returners);
} RETURNED SEC(".maps");

/* Of a source, in the room that it leaves. */
struct watch {
	/* Numbers of packets, as `source.test` counts them: of the next that is looked at, and behind the last that was. */
	u64 next;
	u64 looked;
	u64 looked_ns;
	u64 random;
	/* Some source returns what it gets. */
	u64 alert;
	/* The two addresses of a packet that was answered, and so is any other between them, whatever its ports; or 0. */
	u64 pair;
	struct known known;
	/* Looks in a row that found something new, up to CALM. */
	u64 calm;
};
_Static_assert(sizeof(struct watch) <= sizeof(((struct source *)0)->room), "room of a source");

INLINE struct watch *watch_of(struct source *source)
{
	return (struct watch *)source->room;
}

/* Whom a packet came from: `Source` of crates/wire. */
struct sender {
	u64 ip[2];
	u64 port;
};

INLINE u64 rotate(u64 word, u32 by)
{
	return word << by | word >> (64 - by);
}

#define SIP_ROUND                                                                                                      \
	do {                                                                                                           \
		v0 += v1;                                                                                              \
		v2 += v3;                                                                                              \
		v1 = rotate(v1, 13) ^ v0;                                                                              \
		v3 = rotate(v3, 16) ^ v2;                                                                              \
		v0 = rotate(v0, 32) + v3;                                                                              \
		v2 += v1;                                                                                              \
		v1 = rotate(v1, 17) ^ v2;                                                                              \
		v3 = rotate(v3, 21) ^ v0;                                                                              \
		v2 = rotate(v2, 32);                                                                                   \
	} while (0)

#define SIP_WORD(word)                                                                                                 \
	do {                                                                                                           \
		v3 ^= (word);                                                                                          \
		SIP_ROUND;                                                                                             \
		SIP_ROUND;                                                                                             \
		v0 ^= (word);                                                                                          \
	} while (0)

/* A number that only who knows the secret, or was sent it, knows to be this sender's: SipHash-2-4. Never 0. */
NOINLINE u64 mark_of(const struct sender *sender)
{
	u64 v0 = LOOPS.secret[0] ^ 0x736f6d6570736575ULL, v1 = LOOPS.secret[1] ^ 0x646f72616e646f6dULL;
	u64 v2 = LOOPS.secret[0] ^ 0x6c7967656e657261ULL, v3 = LOOPS.secret[1] ^ 0x7465646279746573ULL;

	SIP_WORD(sender->ip[0]);
	SIP_WORD(sender->ip[1]);
	SIP_WORD(sender->port | 18ULL << 56);
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	v0 ^= v1 ^ v2 ^ v3;
	return v0 ? v0 : 1;
}

/*
 * Whether a source is an address that packets are taken for, and so our own: its answer would be a packet for us again.
 * The destination is one of those, and the only one if no range was named.
 */
INLINE int is_ours4(be32 source, be32 destination)
{
	return source == destination || is_within(&PLAN.own, &source, 0);
}

INLINE int is_ours6(void *at)
{
	return (U64(at) == U64(at + 16) && U64(at + 8) == U64(at + 24)) || is_within(&PLAN.own, at, 1);
}

/* Whether a packet from one of our own (`ours`) or others can be answered. 0, or the reason + 1. */
INLINE int answerable4_from(int ours, be32 source, be32 destination, u32 ports)
{
	if (ours && (!LOOPS.loopback || (u16)ports == (u16)(ports >> 16)))
		LEAVE(LEFT_OWN_SOURCE);
	if (listed4(LOOPS.broadcasts, LOOPS.broadcasts_count, destination))
		LEAVE(LEFT_MULTICAST);
	if (listed4(LOOPS.broadcasts, LOOPS.broadcasts_count, source))
		LEAVE(LEFT_BAD_SOURCE);
	if (LOOPS.loopback)
		return 0;
	if ((source & 0xff) == 127)
		LEAVE(LEFT_BAD_SOURCE);
	if (listed4(LOOPS.own4, LOOPS.own4_count, source))
		LEAVE(LEFT_OWN_SOURCE);
	return 0;
}

/* Whether a packet that the filter takes can be answered: `answerable` of crates/wire. 0, or the reason + 1. */
INLINE int answerable4(be32 source, be32 destination, u32 ports)
{
	return answerable4_from(is_ours4(source, destination), source, destination, ports);
}

/* `at`: the source address. */
INLINE int answerable6_from(int ours, void *at, u32 ports)
{
	if (ours &&
	    (!LOOPS.loopback || (u16)ports == (u16)(ports >> 16)))
		LEAVE(LEFT_OWN_SOURCE);
	if (LOOPS.loopback)
		return 0;
	if (is_loopback6(at))
		LEAVE(LEFT_BAD_SOURCE);
	if (listed6(at))
		LEAVE(LEFT_OWN_SOURCE);
	return 0;
}

INLINE int answerable6(void *at, u32 ports)
{
	return answerable6_from(is_ours6(at), at, ports);
}

/* Whether the next look at a packet is due. */
INLINE int look_due(const struct source *source)
{
	return source->test >= watch_of((struct source *)source)->next;
}

/*
 * A look begins, and the next one is chosen. Returns for how many packets it stands: those since the last look.
 */
INLINE u32 begin_look(struct source *source)
{
	struct watch *watch = watch_of(source);
	u64 since = source->test + 1 - watch->looked;
	u32 distance = watch->calm < CALM ? CLOSE : FAR;

	watch->looked = source->test + 1;
	watch->looked_ns = source->now_ns;
	watch->random = (watch->random ^ source->now_ns) * 0x5851f42d4c957f2dULL + 0x14057b7ef767814fULL;
	watch->next = watch->looked + distance / 2 + ((watch->random >> 33) & (distance - 1));
	return since < MOST_WEIGHT ? since : MOST_WEIGHT;
}

/* The clock was read anew: where packets come slowly, the next one is looked at. */
INLINE void look_in_time(struct source *source)
{
	struct watch *watch = watch_of(source);

	if (LOOPS.secret[0] && source->now_ns - watch->looked_ns >= LOOK_NS && watch->next > source->test)
		watch->next = source->test;
}

enum look { ORDINARY, WITHHELD, PROBE };

/* Result of the look at a plain packet: nothing; the long way is to look at it; a probe is to take its place. */
enum { LOOKED, LOOK_AGAIN, PROBE_DUE };

/* Notes a packet that is to be answered, one of `weight`: `Loops::look`. */
INLINE enum look look_at(struct watch *watch, u32 key, u64 hash, u32 weight, int is_short)
{
	u32 place = key * SETS + ((u32)hash & (SETS - 1)), tag = (u32)(hash >> 32) | 1, way;
	struct seen_set *set = bpf_map_lookup_elem(&SEEN, &place);
	struct seen *seen = 0;

	if (!set)
		return ORDINARY;
#pragma unroll
	for (u32 i = 0; i < WAYS; i++)
		if (!seen && set->way[i].tag == tag)
			seen = &set->way[i];
	if (!seen) {
		if (watch->calm < CALM)
			watch->calm++;
#pragma unroll
		for (u32 i = 0; i < WAYS; i++)
			if (!seen && !set->way[i].tag)
				seen = &set->way[i];
		if (seen) {
			seen->due = FIRST_DUE;
			seen->tag = tag;
			return ORDINARY;
		}
		watch->random = watch->random * 0x5851f42d4c957f2dULL + 0x14057b7ef767814fULL;
		way = watch->random >> 40;
		seen = !(way & 3) ? (!(way & 12) ? (!(way & 48) ? &set->way[3] : &set->way[2]) : &set->way[1]) : &set->way[0];
		if (seen->life) {
			seen->life--;
			return ORDINARY;
		}
		seen->tag = tag;
		seen->score = 0;
		seen->due = FIRST_DUE;
		seen->withheld = 0;
		return ORDINARY;
	}
	watch->calm = 0;
	seen->life = seen->life + LIFE < MOST_LIFE ? seen->life + LIFE : MOST_LIFE;
	seen->score += weight;
	if (seen->score < seen->due || !seen->due)
		return ORDINARY;
	if (is_short && !seen->withheld) {
		seen->withheld = 1;
		return WITHHELD;
	}
	seen->withheld = 0;
	/* 0, after 2^31: no more are due. */
	seen->due *= 2;
	return PROBE;
}

INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

INLINE int read_sender(struct xdp_md *ctx, const struct udp_packet *p, struct sender *sender)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *ip = data + (p->l3 & 31);
	struct ports *ports = data + (p->l4 & OFFSET);

	if (ip + sizeof(struct ipv4) > end || (void *)(ports + 1) > end)
		return 0;
	if (p->v6) {
		if (ip + sizeof(struct ipv6) > end)
			return 0;
		sender->ip[0] = U64(ip + 8);
		sender->ip[1] = U64(ip + 16);
	} else {
		sender->ip[0] = 0;
		sender->ip[1] = 0xffff0000 | (u64)U32(ip + 12) << 32;
	}
	sender->port = swap16(ports->source);
	return 1;
}

INLINE u64 hash_of(const struct sender *sender, be16 checksum, u32 length, const u64 *words)
{
	u64 hash = mix(LOOPS.secret[0], sender->ip[0]);

	hash = mix(hash, sender->ip[1]);
	hash = mix(hash, sender->port << 48 | (u64)checksum << 32 | length);
	hash = mix(hash, words[0]);
	return mix(hash, words[1]);
}

/* The look of `admit` at a plain packet that is answered otherwise, and is no probe. */
GLOBAL u32 look_plain(struct xdp_md *ctx, struct source *source, int v6)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *payload;
	struct udp_packet p = { .l3 = 14, .l4 = v6 ? PLAIN6_L4 : PLAIN4_L4, .v6 = v6 };
	struct sender sender;
	struct udp *udp;
	u64 words[2];
	u32 length;

	udp = data + (p.l4 & OFFSET);
	payload = udp + 1;
	if (!source)
		return LOOK_AGAIN;
	if (!LOOPS.secret[0]) {
		watch_of(source)->next = ~0ULL;
		return LOOKED;
	}
	if (payload + sizeof(words) > end)
		return LOOK_AGAIN;
	length = swap16(udp->length) - sizeof(struct udp);
	/* Then another part of the frame follows, or the packet may be to be withheld. */
	if (length < sizeof(words) || !read_sender(ctx, &p, &sender))
		return LOOK_AGAIN;
	words[0] = U64(payload);
	words[1] = U64(payload + 8);
	if (look_at(watch_of(source), source_key(ctx), hash_of(&sender, udp->checksum, length, words), begin_look(source),
		    0) == PROBE)
		return PROBE_DUE;
	return LOOKED;
}

/*
 * Whether a packet that could be answered is, so far as others that return what they get go: 0, or the reason + 1;
 * minus one where a probe is to take its place. `plain`: the result of `look_plain`, if it was called.
 */
NOINLINE int admit(struct xdp_md *ctx, struct source *source, const struct udp_packet *p, u32 plain)
{
	struct watch *watch = watch_of(source);
	u32 key = source_key(ctx), length = p->payload_len, size = length < 16 ? length : 16;
	int probe = length == PROBE_LEN;
	struct sender sender;
	u64 words[2] = {}, hash, mark;
	void *udp;
	enum look look;

	if (!LOOPS.secret[0] || (!look_due(source) && !probe && !watch->alert && plain != PROBE_DUE))
		return 0;
	if (!read_sender(ctx, p, &sender))
		return 0;
	if (length) {
		size = ((size - 1) & 15) + 1;
		if (bpf_xdp_load_bytes(ctx, p->l4 + sizeof(struct udp), words, size))
			return 0;
	}
	if (probe || watch->alert) {
		struct returners *returners = bpf_map_lookup_elem(&RETURNED, &key);

		if (!returners)
			return 0;
		mark = mark_of(&sender);
		if (probe && (u32)words[0] == PROBE_MAGIC && (words[0] >> 32 | words[1] << 32) == mark) {
			returners->mark[mark & (RETURNERS - 1)] = mark;
			watch->alert = 1;
			watch->known.length = NONE_KNOWN;
		}
		if (returners->mark[mark & (RETURNERS - 1)] == mark)
			LEAVE(LEFT_RETURNED);
	}
	if (plain == PROBE_DUE)
		return -1;
	if (!look_due(source))
		return 0;
	udp = frame_data(ctx) + (p->l4 & OFFSET);
	if (udp + sizeof(struct udp) > frame_end(ctx))
		return 0;
	hash = hash_of(&sender, U16(udp + 6), length, words);
	look = look_at(watch, key, hash, begin_look(source), length < PROBE_LEN);
	if (look == WITHHELD)
		LEAVE(LEFT_PROBED);
	return look == PROBE ? -1 : 0;
}

/* Makes a packet that was turned into a probe of whom it goes to: `make_probe_in_place`. */
NOINLINE int make_probe(struct xdp_md *ctx, const struct udp_packet *p, const struct sender *to)
{
	u32 length = bpf_xdp_get_buff_len(ctx), end_of_probe = p->l4 + sizeof(struct udp) + PROBE_LEN, wanted;
	u64 mark = mark_of(to), sum;
	void *data, *end, *ip, *payload;
	struct udp *udp;

	wanted = length < 60 ? length : 60;
	if (wanted < end_of_probe)
		wanted = end_of_probe;
	if (wanted != length && bpf_xdp_adjust_tail(ctx, (int)(wanted - length)))
		return 0;
	data = frame_data(ctx);
	end = frame_end(ctx);
	ip = data + (p->l3 & 31);
	udp = data + (p->l4 & OFFSET);
	payload = udp + 1;
	if (ip + sizeof(struct ipv4) > end || payload + PROBE_LEN > end)
		return 0;
	U32(payload) = PROBE_MAGIC;
	U32(payload + 4) = mark;
	U32(payload + 8) = mark >> 32;
#pragma unroll
	for (u32 i = PROBE_LEN; i < PROBE_LEN + 8; i++)
		if (payload + i + 1 <= end)
			*(u8 *)(payload + i) = 0;
	if (p->v6) {
		((struct ipv6 *)ip)->payload_length = swap16(end_of_probe - p->l3 - sizeof(struct ipv6));
	} else {
		be16 new = swap16(end_of_probe - p->l3);

		/* RFC 1624. */
		sum = (u16)~U16(ip + 10) + (u64)(u16)~U16(ip + 2) + new;
		U16(ip + 2) = new;
		U16(ip + 10) = ~fold(sum);
	}
	udp->length = BE16(sizeof(struct udp) + PROBE_LEN);
	udp->checksum = 0;
	sum = sum_pseudo(ctx, p->l3, p->v6, PROTOCOL_UDP, sizeof(struct udp) + PROBE_LEN) + U32(udp) + U32((void *)udp + 4) +
	      U32(payload) + U32(payload + 4) + U32(payload + 8);
	udp->checksum = ~fold(sum);
	if (!udp->checksum)
		udp->checksum = 0xffff;
	return 1;
}

#endif
